import { runWarnings } from "../domain/run-warnings.ts";
import { safeField } from "../domain/terminal-text.ts";
import type { Io } from "./io.ts";
import type { OpenReads } from "./store.ts";

/** Prints the warnings about files that are lost with the machines of a run on stderr. */
export function tellWarnings(reads: OpenReads, id: string, io: Io): void {
  if (reads.job(id) === null) return;
  for (const words of runWarnings(reads.timeline(id).steps)) io.err(safeField(`${id}: ${words}`));
}
