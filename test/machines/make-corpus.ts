// Writes the corpus of this version of the job machine: a snapshot for each state, with the journal that leads to it,
// and the fingerprint of the definition. Run once for each new version: `npx node test/machines/make-corpus.ts`. Files
// of an older version are never rewritten: users have them.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fingerprint } from "../../src/engine/journal.ts";
import { JOB_MACHINE_VERSION } from "../../src/machines/job-machine.ts";
import { definitionText } from "./fingerprint.ts";
import { AT, errorOf, first, happyWalk, input, STATES, step, type Body } from "./walk.ts";

export const corpusFolder = join(import.meta.dirname, "corpus");

export interface CorpusEntry {
  version: number;
  state: string;
  snapshot: string;
  hash: string;
  /** The journal's rows that `refold` reads. */
  journal: {
    seq: number;
    type: string;
    event: string;
    from_state: string | null;
    to_state: string;
    hash: string;
    at: number;
  }[];
}

const RULES = { retry_max: 2, retry_on: ["machine_unfit", "boot_failed"], recovers: true, max_preemptions: 10 };

/** A job of two nodes on its way to the named state, with all fields that a context can have by then. */
function entry(state: string): CorpusEntry {
  const of = { ...input(2, 3_600_000, { ...RULES, searches: state === "waiting" }), budget_micro: 5_000_000 };
  let snapshot = first(of);
  const journal: CorpusEntry["journal"] = [];
  const write = (type: string, event: object, from: string | null, at: number): void => {
    const { hash } = fingerprint(snapshot);
    journal.push({
      seq: journal.length + 1,
      type,
      event: JSON.stringify(event),
      from_state: from,
      to_state: snapshot.value,
      hash,
      at,
    });
  };
  write("job.created", { type: "job.created", input: of, version: JOB_MACHINE_VERSION }, null, AT);
  const badEnd: Body = { type: "stream.done", node: 1, exit_code: 137, error: errorOf("script_failed") };
  const walk = happyWalk(2).map((body) => (body.type === "stream.done" && body.node === 1 ? badEnd : body));
  for (const [i, body] of state === "waiting" ? [] : walk.entries()) {
    const at = AT + (i + 1) * 1_000;
    const from = snapshot.value;
    [snapshot] = step(snapshot, body, at);
    write(body.type, { ...body, at }, from, at);
    // Takes the second snapshot of a state: nodes are then in different phases.
    if (snapshot.value === state && from === state) break;
  }
  const { text, hash } = fingerprint(snapshot);
  return { version: JOB_MACHINE_VERSION, state, snapshot: text, hash, journal };
}

if (import.meta.main) {
  const folder = join(corpusFolder, `v${JOB_MACHINE_VERSION}`);
  mkdirSync(folder, { recursive: true });
  for (const state of STATES) {
    const file = join(folder, `${state}.json`);
    if (existsSync(file)) continue;
    writeFileSync(file, `${JSON.stringify(entry(state), null, 2)}\n`);
  }
  const file = join(corpusFolder, `fingerprint-v${JOB_MACHINE_VERSION}.txt`);
  if (!existsSync(file)) writeFileSync(file, definitionText());
}
