import { resolve } from "node:path";
import { bytes } from "../../domain/bytes.ts";
import type { Progress } from "../../files/data/add.ts";
import type { DataReport, DataSummary } from "../../schemas/data.ts";
import { runAction } from "../actions.ts";
import type { Command, Input } from "../command.ts";
import type { Io } from "../io.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { duration, instant, printJson, table } from "../text.ts";

// Code that reads and hashes is loaded when it is used.
const store = () => import("../../files/data/store.ts");

const ACTIONS = {
  add: { usage: "svc data add NAME PATH…", least: 2, most: Infinity, flags: ["follow-links"], run: add },
  ls: { usage: "svc data ls", least: 0, most: 0, flags: [], run: ls },
  show: { usage: "svc data show NAME", least: 1, most: 1, flags: [], run: show },
  verify: { usage: "svc data verify NAME…", least: 1, most: Infinity, flags: ["full"], run: verify },
  rm: { usage: "svc data rm NAME…", least: 1, most: Infinity, flags: [], run: rm },
};

export const data: Command = {
  name: "data",
  args: "[action] [...args]",
  summary: "Manage data sets that runs use by name: add NAME PATH…, ls, show NAME, verify NAME…, rm NAME…",
  options: [
    { flags: "--follow-links", what: "add: follow symlinks that point outside the folder" },
    { flags: "--full", what: "verify: re-hash every file, even unmodified ones" },
  ],
  exits: [["3", "no data of that name"]],
  examples: ["svc data add imagenet ~/datasets/imagenet", "svc data verify imagenet", "svc data ls --json"],
  run: (input, io) => runAction("data", ACTIONS, input, io),
};

const SHOW_EVERY_MS = 100;

/** Shows progress, with rate and remaining time, on one line of a terminal. */
function shownOn(io: Io, name: string): (progress: Progress) => void {
  let begun: { at: number; doing: string } = { at: performance.now(), doing: "" };
  let shownAt = -Infinity;
  return ({ doing, files, bytes: done, files_total, bytes_total }) => {
    const now = performance.now();
    if (begun.doing !== doing) begun = { at: now, doing };
    if (now - shownAt < SHOW_EVERY_MS) return;
    shownAt = now;
    const of = (n: string, total: string | null): string => (total === null ? n : `${n} of ${total}`);
    const count = of(files.toLocaleString("en"), files_total?.toLocaleString("en") ?? null);
    const parts = [
      `${name}: ${doing}`,
      `${count} files`,
      of(bytes(done), bytes_total === null ? null : bytes(bytes_total)),
    ];
    const seconds = (now - begun.at) / 1000;
    if (doing === "reading" && seconds > 0.5 && done > 0) {
      const rate = done / seconds;
      parts.push(`${bytes(Math.round(rate))}/s`);
      if (bytes_total !== null) parts.push(`${duration(((bytes_total - done) / rate) * 1000)} left`);
    }
    io.status(parts.join(", "));
  };
}

async function add([name = "", ...paths]: string[], input: Input, io: Io): Promise<number> {
  const { addData } = await import("../../files/data/add.ts");
  const request = {
    name,
    paths: paths.map((path) => resolve(io.cwd, path)),
    followLinks: input.flags.has("follow-links"),
  };
  const options = { home: io.home(), now: Date.now(), signal: io.interrupted, progress: shownOn(io, name) };
  const {
    data: added,
    unchanged,
    read_files,
    read_bytes,
  } = await addData(request, options).finally(() => io.status(""));
  if (input.json) {
    await printJson(io, { data: added, unchanged, read_files, read_bytes });
    return 0;
  }
  const what = unchanged === null ? "added" : unchanged ? "unchanged" : "changed, and recorded again";
  const read = read_files === added.files ? "" : ` (${read_files.toLocaleString("en")} files read again)`;
  io.err(`${name}: ${amount(added)}, ${what}${read}. sha256 ${added.sha256}`);
  tellLeftOut(added, io);
  return 0;
}

const amount = ({ files, bytes: size }: { files: number; bytes: number }): string =>
  `${files.toLocaleString("en")} ${files === 1 ? "file" : "files"}, ${bytes(size)}`;

function tellLeftOut({ left_out, left_out_count }: DataSummary, io: Io): void {
  for (const { path, why } of left_out.slice(0, 10)) io.err(`left out: ${safeField(path)}: ${why}`);
  if (left_out_count > 10) io.err(`left out: ${left_out_count - 10} more; see \`svc data show NAME --json\``);
  if (left_out.some(({ leaves }) => leaves))
    io.err("Add --follow-links to include symlinks that point outside the folder.");
}

async function ls(_: string[], input: Input, io: Io): Promise<number> {
  const { listData } = await store();
  const { data: all, damaged } = listData(io.home());
  if (input.json) await printJson(io, { data: all, damaged });
  else if (all.length > 0) {
    const columns = [
      { title: "NAME" },
      { title: "FILES", right: true },
      { title: "SIZE", right: true },
      { title: "SHA-256" },
      { title: "CHECKED" },
      { title: "FROM", shrinks: true },
    ];
    const rows = all.map((d) => [
      d.name,
      String(d.files),
      io.tty ? bytes(d.bytes) : String(d.bytes),
      io.tty ? d.sha256.slice(0, 12) : d.sha256,
      instant(io, d.checked_at),
      d.roots.join(", "),
    ]);
    await io.out(table(io, columns, rows));
  } else if (io.tty && damaged.length === 0) io.err("No data yet. `svc data add NAME PATH` adds some.");
  if (!input.json) for (const { why } of damaged) io.err(safeField(why));
  return damaged.length > 0 ? 1 : 0;
}

async function show([name = ""]: string[], input: Input, io: Io): Promise<number> {
  const { readManifest, summaryOf } = await store();
  const manifest = readManifest(io.home(), name);
  const files = manifest.files.map(([path, size, sha256]) => ({ path, size, sha256 }));
  if (input.json) {
    await printJson(io, { ...summaryOf(manifest), files });
    return 0;
  }
  const columns = [{ title: "SIZE", right: true }, { title: "SHA-256" }, { title: "FILE" }];
  const rows = files.map((f) => [
    io.tty ? bytes(f.size) : String(f.size),
    io.tty ? f.sha256.slice(0, 12) : f.sha256,
    f.path,
  ]);
  await io.out(table(io, columns, rows));
  if (io.tty) {
    io.err(`${name}: ${amount(summaryOf(manifest))}, from ${safeField(manifest.roots.map((r) => r.path).join(", "))}`);
    tellLeftOut(summaryOf(manifest), io);
  }
  return 0;
}

async function verify(names: string[], input: Input, io: Io): Promise<number> {
  const { verifyData } = await import("../../files/data/verify.ts");
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

async function rm(names: string[], input: Input, io: Io): Promise<number> {
  const { readManifest, removeManifest } = await store();
  // All or none: a mistyped name removes nothing. Data with a damaged manifest can still be removed.
  for (const name of names) {
    try {
      readManifest(io.home(), name);
    } catch (e) {
      if ((e as { code?: string }).code !== "data_manifest_damaged") throw e;
    }
  }
  for (const name of names) removeManifest(io.home(), name);
  if (input.json) await printJson(io, { removed: names });
  else io.err(`${names.join(", ")}: removed from the list. The files themselves were not changed.`);
  return 0;
}
