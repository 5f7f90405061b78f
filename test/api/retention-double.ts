// The retention rule of the control plane in memory.

import type { RetentionOf } from "../../src/engine/control-plane.ts";
import { SvcError } from "../../src/errors/index.ts";
import type { JobRecord } from "../../src/schemas/job.ts";
import { hasEnded } from "../../src/schemas/names.ts";
import type { HomeRetention, OldRuns, RetentionRule } from "../../src/schemas/retention.ts";

export const NOTHING_OLD: OldRuns = {
  count: 0,
  bytes: 0,
  unmeasured: 0,
  runs: [],
  kept: { best: 0, newest: 0, archived: 0, in_use: 0 },
};

export class RetentionDouble implements RetentionOf {
  rule: RetentionRule | null = null;
  readonly #records: Map<string, JobRecord>;
  readonly #at: string;

  constructor(records: Map<string, JobRecord>, at: string) {
    this.#records = records;
    this.#at = at;
  }

  state(): HomeRetention {
    const due = this.rule && NOTHING_OLD;
    return { rule: this.rule, set_at: null, looked_at: null, doubt: null, due, removed: [] };
  }

  preview(): OldRuns {
    return NOTHING_OLD;
  }

  set(rule: RetentionRule | null): Promise<HomeRetention> {
    this.rule = rule;
    return Promise.resolve(this.state());
  }

  archive(id: string, isArchived: boolean): Promise<JobRecord> {
    const record = this.#records.get(id);
    if (!record || !hasEnded(record.status)) return Promise.reject(new SvcError("job_not_archivable", { id }));
    const changed = { ...record, archived_at: isArchived ? this.#at : null };
    this.#records.set(id, changed);
    return Promise.resolve(changed);
  }
}
