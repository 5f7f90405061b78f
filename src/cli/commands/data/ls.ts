// `svc data ls`: the data sets of this home.

import { existsSync } from "node:fs";
import { bytes } from "../../../domain/bytes.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import { instant, printJson, table } from "../../text.ts";
import { unusedHome } from "../../store.ts";
import { store } from "./store.ts";

export async function ls(_: string[], input: Input, io: Io): Promise<number> {
  const { listData } = await store();
  const { data: all, damaged } = listData(io.home());
  const unused = existsSync(io.home()) ? null : unusedHome(io);
  if (unused !== null) io.err(unused);
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
