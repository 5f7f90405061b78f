// Invariants that must hold after every commit and at every moment, checked only in the database, without the engine.

import { firstFold, fold, type Snapshot } from "../../src/engine/fold.ts";
import { jobMachine } from "../../src/machines/job-machine.ts";
import type { JobEvent, JobInput } from "../../src/machines/job-context.ts";
import type { StoredSnapshot } from "../../src/machines/versions.ts";
import type { EngineStore } from "../../src/store/engine-store.ts";
import type { JobRow } from "../../src/store/tables.ts";

/** Triggers of this connection only: they refuse writes that must never happen, whoever makes them. */
const TRIGGERS = `
  CREATE TEMP TRIGGER effect_final BEFORE UPDATE OF state ON main.effect
    WHEN old.state IN ('done', 'failed', 'cancelled') AND new.state <> old.state
    BEGIN SELECT violated('effect ' || old.id || ' (' || old.step || ') went from ' || old.state || ' to ' || new.state); END;
  CREATE TEMP TRIGGER attempt_grows BEFORE UPDATE OF attempt ON main.effect WHEN new.attempt < old.attempt
    BEGIN SELECT violated('effect ' || old.id || ' went back to attempt ' || new.attempt); END;
  CREATE TEMP TRIGGER journal_kept BEFORE UPDATE ON main.journal BEGIN SELECT violated('a journal row was changed'); END;
  CREATE TEMP TRIGGER journal_stays BEFORE DELETE ON main.journal BEGIN SELECT violated('a journal row was deleted'); END;
  CREATE TEMP TRIGGER feed_stays BEFORE DELETE ON main.feed BEGIN SELECT violated('a feed row was deleted'); END;
  CREATE TEMP TRIGGER terminal_stays BEFORE UPDATE OF state ON main.job WHEN old.state = 'terminal' AND new.state <> 'terminal'
    BEGIN SELECT violated('job ' || old.id || ' left terminal'); END;
  CREATE TEMP TRIGGER released_proof BEFORE UPDATE OF state ON main.machine WHEN new.state = 'released' AND new.proof IS NULL
    BEGIN SELECT violated('machine ' || old.name || ' was released without a proof'); END;
`;

/** Folds the committed journals in parallel. Outlives every life of the control plane. */
export class Shadow {
  readonly #folded = new Map<string, { seq: number; snapshot: Snapshot }>();
  readonly #fail: (what: string) => void;
  readonly #terminal: (row: JobRow) => void;

  constructor(fail: (what: string) => void, terminal: (row: JobRow) => void) {
    this.#fail = fail;
    this.#terminal = terminal;
  }

  /** Called once per connection. */
  guard(store: EngineStore): void {
    store.db.function("violated", (what) => {
      this.#fail(String(what));
      return 1;
    });
    store.db.exec(TRIGGERS);
  }

  statements(store: EngineStore) {
    return {
      seqs: store.db.prepare<[], { id: string; seq: number }>("SELECT id, seq FROM job"),
      job: store.db.prepare<[string], JobRow>("SELECT * FROM job WHERE id = ?"),
      journal: store.db.prepare<
        [string, number],
        { seq: number; event: string; from_state: string | null; to_state: string }
      >("SELECT seq, event, from_state, to_state FROM journal WHERE job_id = ? AND seq > ? ORDER BY seq"),
      idle: store.db.prepare<[], { id: string; state: string }>(
        `SELECT id, state FROM job WHERE state <> 'terminal' AND parked IS NULL
         AND NOT EXISTS (SELECT 1 FROM effect WHERE job_id = job.id AND state IN ('running', 'retrying'))`,
      ),
      strays: store.db.prepare<[], { id: number; step: string }>(
        `SELECT effect.id, step FROM effect JOIN job ON job.id = job_id WHERE effect.state IN ('running', 'retrying')
         AND step NOT IN (SELECT value FROM json_each(CASE job.state
           WHEN 'waiting' THEN '["place"]'
           WHEN 'provisioning' THEN '["provision"]' WHEN 'awaiting_ssh' THEN '["await_ssh"]' WHEN 'syncing' THEN '["sync"]'
           WHEN 'installing' THEN '["install"]' WHEN 'running' THEN '["launch","stream"]'
           WHEN 'terminating' THEN '["collect","terminate"]' ELSE '[]' END))`,
      ),
    };
  }

  /**
   * After a commit: the journal leads to the stored snapshot, byte for byte, and every live job has something to wait
   * for.
   */
  check(s: ReturnType<Shadow["statements"]>): void {
    let moved = false;
    for (const { id, seq: at } of s.seqs.all()) {
      const known = this.#folded.get(id);
      if (known?.seq === at) continue;
      moved = true;
      const row = s.job.get(id);
      if (!row) continue;
      let { seq, snapshot } = known ?? { seq: 0, snapshot: null };
      for (const entry of s.journal.all(row.id, seq)) {
        if (entry.seq !== seq + 1) this.#fail(`${row.id}: the journal goes from ${seq} to ${entry.seq}`);
        snapshot = folded(snapshot, entry.event);
        seq = entry.seq;
      }
      if (snapshot === null || seq !== row.seq) {
        this.#fail(`${row.id} is at ${row.seq}, its journal at ${seq}`);
        continue;
      }
      const text = JSON.stringify({ value: snapshot.value, context: snapshot.context });
      if (text !== row.snapshot) this.#fail(`${row.id}: the journal folds to ${text}, stored is ${row.snapshot}`);
      this.#folded.set(row.id, { seq, snapshot });
      if (row.state === "terminal") this.#terminal(row);
    }
    if (!moved) return;
    for (const job of s.idle.all()) this.#fail(`${job.id} is ${job.state} and nothing is under way for it`);
    for (const effect of s.strays.all())
      this.#fail(`effect ${effect.id} (${effect.step}) is open in a state that never asked for it`);
  }
}

function folded(snapshot: Snapshot | null, text: string): Snapshot {
  const event = JSON.parse(text) as { type: string; input: JobInput; snapshot: StoredSnapshot };
  if (event.type === "job.created") return firstFold(event.input).snapshot;
  if (event.type === "machine.rebased") return jobMachine.resolveState(event.snapshot);
  if (snapshot === null) throw new TypeError("a journal that does not begin with its job");
  return fold(snapshot, event as unknown as JobEvent).snapshot;
}
