// Ends runs one by one through a control plane, prints each change, and waits for the ends if asked.

import type { JobRecord } from "../../../schemas/job.ts";
import { sleep, type Io } from "../../io.ts";
import { hasEnded } from "../../../schemas/names.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import { printJson } from "../../text.ts";

export interface KillOptions {
  jobs: string[];
  all: boolean;
  wait: boolean;
  json: boolean;
}

const LOOK_MS = 150;

/** A control plane limits its connections. */
const AT_ONCE = 32;

/** The operations of a kill, over HTTP or in this process. */
export interface Killer {
  kill(id: string): Promise<JobRecord>;
  job(id: string): Promise<JobRecord | null>;
}

export async function killThrough(
  killer: Killer,
  ids: string[],
  options: KillOptions,
  io: Io,
  lookMs = LOOK_MS,
): Promise<number> {
  const records: JobRecord[] = [];
  const answers: PromiseSettledResult<JobRecord>[] = [];
  for (let i = 0; i < ids.length; i += AT_ONCE) {
    const some = await Promise.allSettled(ids.slice(i, i + AT_ONCE).map((id) => killer.kill(id)));
    answers.push(...some);
    // No control plane answers.
    if (some.every(({ status }) => status === "rejected")) break;
  }
  const failed = answers.find((answer) => answer.status === "rejected");
  for (const { value: first } of answers.filter((answer) => answer.status === "fulfilled")) {
    let record = first;
    if (!options.json)
      io.err(
        hasEnded(record.status)
          ? `${record.id}: had already ended; nothing was killed`
          : `${record.id}: ending it${options.wait ? "" : "; `svc jobs` shows when it is done"}`,
      );
    let message = record.note?.message;
    while (options.wait && !hasEnded(record.status) && !io.interrupted.aborted) {
      await sleep(lookMs, io.interrupted);
      record = (await killer.job(record.id)) ?? record;
      const before = message;
      message = record.note?.message;
      if (!options.json && message !== undefined && message !== before) io.err(`${record.id}: ${safeField(message)}`);
    }
    records.push(record);
    if (!options.json) await io.out(`${record.id}\t${record.status}\n`);
  }
  if (options.json) await printJson(io, { jobs: records });
  const left = records.filter((r) => !hasEnded(r.status));
  if (io.interrupted.aborted && left.length > 0)
    io.err(
      `Not waiting for ${left.map((r) => r.id).join(", ")}: the kill is recorded, but a machine may still cost money.\n\`svc jobs\` lists the unfinished runs; \`svc reconcile\` finishes them.`,
    );
  // A failed kill request must not prevent the others.
  if (failed) throw failed.reason;
  return io.interrupted.aborted ? 130 : 0;
}
