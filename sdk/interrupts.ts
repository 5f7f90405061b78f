// Ctrl-C in a script that waits for runs. If no other caller holds the control plane, it and its runs shut down gracefully; the script
// prints what happens to machine and money. A script with its own SIGINT listener decides by itself.

import type { JobRecord } from "../src/schemas/job.ts";
import { runsHere } from "../src/providers/descriptors.ts";
import { hasEnded } from "../src/schemas/names.ts";
import { keeps, leave } from "./control-planes.ts";
import { ownHome } from "./own-home.ts";

/** In the place of an id during the submission. */
export const SUBMITTED = "";

const watched = new Set<string>();
/** What a run goes on to cost. */
export const continuesWords = (isFree: boolean): string =>
  isFree ? "continues on this computer and costs nothing" : "continues, and its machine may cost money";

/** Runs on this computer itself, by what the caller has named them. */
const free = new Set<string>();
let listening = false;

export function watchInterrupt(jobId: string): void {
  watched.add(jobId);
  if (listening) return;
  listening = true;
  process.on("SIGINT", onInterrupt);
}

export function unwatchInterrupt(...jobIds: string[]): void {
  for (const id of jobIds) watched.delete(id);
}

/** The record, after which Ctrl-C no longer names a run that has ended; `jobId` is what the caller has named it. */
export function seen(record: JobRecord, jobId = record.id): JobRecord {
  if (hasEnded(record.status)) unwatchInterrupt(record.id, jobId);
  if (runsHere(record.provider)) free.add(record.id).add(jobId);
  return record;
}

let interruptedBefore = false;
function onInterrupt(): void {
  if (process.listenerCount("SIGINT") > 1) return;
  // Below the terminal's ^C, and the line that shows the step.
  if (process.stderr.isTTY) process.stderr.write("\n");
  if (interruptedBefore) {
    process.stderr.write(
      "svc: not waiting; the control plane keeps shutting down by itself. `svc jobs` lists the unfinished runs.\n",
    );
    process.exit(130);
  }
  interruptedBefore = true;
  if (!keeps(ownHome())) {
    const known = [...watched].filter((id) => id !== SUBMITTED);
    if (watched.has(SUBMITTED))
      process.stderr.write(
        "svc: interrupted during the submission of a run: if it was accepted, it continues, and its machine may cost money. `svc kill last` ends it.\n",
      );
    if (known.length > 0) {
      const how = continuesWords(known.every((id) => free.has(id)));
      process.stderr.write(`svc: interrupted; ${known.join(", ")} ${how}. \`svc kill\` ends it.\n`);
    }
    process.exit(130);
  }
  const isIdle = watched.size === 0;
  const what = isIdle
    ? "ending the control plane that this program uses"
    : `ending ${watched.size === 1 ? "the run and releasing its" : `${watched.size} runs and releasing their`} machines`;
  process.stderr.write(`svc: interrupted; ${what}. Press Ctrl-C again to stop waiting.\n`);
  void leave().then(({ shared, unwell }) => {
    const how =
      unwell.length > 0
        ? `not everything has ended: ${unwell.join("; ")}`
        : shared > 0
          ? isIdle
            ? "other programs use the control plane, which ends with the last of them"
            : "other programs use the control plane; the run may continue, and cost money, until the last of them ends. `svc kill` ends it now"
          : "everything has ended; no machine of these runs costs money any more";
    process.stderr.write(`svc: ${how}.\n`);
    process.exit(130);
  });
}
