// Reads which jobs wait for the next try of a step. The control plane asks at the end of each run, so the answer comes from the index of
// open effects.

import type { StepName } from "../schemas/job.ts";
import type { Sqlite } from "./database.ts";
import { lit, p, prepare, q } from "./statements.ts";
import type { EffectRow } from "./tables.ts";

export class WaitingReads {
  readonly #jobs;

  constructor(db: Sqlite) {
    this.#jobs = prepare<Pick<EffectRow, "job_id">>(
      db,
      q
        .selectFrom("effect")
        .select("job_id")
        // The words of the index.
        .where("state", "in", [lit("running"), lit("retrying")])
        .where("state", "=", lit("retrying"))
        .where("step", "=", p("step"))
        .orderBy("id"),
    );
  }

  /** The job whose effect is oldest comes first. */
  jobs(step: StepName): string[] {
    return this.#jobs.all({ step }).map(({ job_id }) => job_id);
  }
}
