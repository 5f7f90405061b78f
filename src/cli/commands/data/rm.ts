// `svc data rm`: removes data sets from the list; their files stay.

import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { printJson } from "../../text.ts";
import { store } from "./store.ts";

export async function rm(names: string[], input: Input, io: Io): Promise<number> {
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
