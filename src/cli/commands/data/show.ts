// `svc data show`: the files of one data set.

import { bytes } from "../../../domain/bytes.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import { printJson, table } from "../../text.ts";
import { store } from "./store.ts";
import { amount, tellLeftOut } from "./words.ts";

export async function show([name = ""]: string[], input: Input, io: Io): Promise<number> {
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
