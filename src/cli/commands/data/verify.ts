// `svc data verify`: compares the files on disk with the record.

import type { DataReport } from "../../../schemas/data.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { printJson, table } from "../../text.ts";
import { shownOn } from "./progress.ts";
import { amount } from "./words.ts";

export async function verify(names: string[], input: Input, io: Io): Promise<number> {
  const { verifyData } = await import("../../../files/data/verify.ts");
  const reports: DataReport[] = [];
  for (const name of names) {
    const options = { home: io.home(), now: Date.now(), signal: io.interrupted, progress: shownOn(io, name) };
    const report = await verifyData(name, input.flags.has("full"), options).finally(() => io.status(""));
    reports.push(report);
    if (!input.json) await tellReport(report, io);
  }
  if (input.json) await printJson(io, { reports });
  return reports.every((report) => report.ok) ? 0 : 1;
}

async function tellReport(report: DataReport, io: Io): Promise<void> {
  const rows = [
    ...report.changed.map(({ path, why }) => ["changed", path, why]),
    ...report.missing.map((path) => ["missing", path, ""]),
    ...report.unreadable.map(({ path, why }) => ["unreadable", path, why]),
    ...report.extra.map((path) => ["extra", path, ""]),
  ];
  const paint = (what: string): string => (what === "extra" ? "33" : "31");
  if (rows.length > 0)
    await io.out(table(io, [{ title: "WHAT", paint }, { title: "FILE" }, { title: "WHY", shrinks: true }], rows));
  const read =
    report.read_files > 0 ? `, ${report.read_files.toLocaleString("en")} of them re-read` : ", none had to be re-read";
  if (report.ok) io.err(`${report.name}: ${amount(report)} as recorded${read}.`);
  else
    io.err(
      `${report.name} differs from its record in ${rows.length.toLocaleString("en")} files. \`svc data add\` records their present state.`,
    );
}
