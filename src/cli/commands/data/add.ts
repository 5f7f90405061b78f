// `svc data add`: records files under a name, with their hashes.

import { resolve } from "node:path";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { printJson } from "../../text.ts";
import { shownOn } from "./progress.ts";
import { amount, tellLeftOut } from "./words.ts";

export async function add([name = "", ...paths]: string[], input: Input, io: Io): Promise<number> {
  const { addData } = await import("../../../files/data/add.ts");
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
