// Deliberate defects in the engine, the job machine, the store and messages, and in the retention rule. Each is named by the head that
// states its invariant, and has the tests that must notice it. The simulation notices further ones (mutants.ts).

import { forRule, single, type TestedMutant } from "./mutants.ts";

const RECOVERY = "test/engine/recovery.test.ts > ";
const REMOVALS = "test/engine/removals.test.ts > ";
const WRITER = "test/engine/run-log-writer.test.ts > ";
const COMMITS = "test/engine/transaction.test.ts > ";
const JOB = "test/machines/job-machine.test.ts > ";
const POST = "test/notify/post.test.ts > ";
const keeper = single("retention", "src/app/retention.ts", ["test/engine/retention.test.ts"]);
const engine = single("engine", "src/engine/engine.ts", []);
const removals = single("removals", "src/engine/removals.ts", [
  `${REMOVALS}deletes code last, and once for all removals that run`,
]);
const writer = single("log writer", "src/engine/run-log-writer.ts", []);
const commits = single("transaction", "src/engine/transaction.ts", []);
const machine = single("job machine", "src/machines/job-machine.ts", []);
const rules = single("job machine", "src/machines/job-rules.ts", []);
const next = single("job machine", "src/machines/next-placement.ts", []);
const versions = single("versions", "src/machines/versions.ts", ["test/machines/versions.test.ts"]);
const database = single("database", "src/store/database.ts", []);
const store = single("store", "src/store/engine-store.ts", []);
const local = single("local kinds", "src/notify/local-kinds.ts", []);
const notifier = single("notifier", "src/notify/notifier.ts", []);
const outbox = single("outbox", "src/notify/outbox.ts", []);
const post = single("post", "src/notify/post.ts", []);
const targets = single("targets", "src/notify/targets.ts", ["test/notify/targets.test.ts"]);

export const ENGINE_MUTANTS: readonly TestedMutant[] = [
  keeper(
    "RK1: a run that was archived meanwhile is removed",
    'if (row.archived_at !== null) return "it is archived";',
    "void row;",
  ),
  forRule(
    "src/app/retention.ts RK1",
    removals(
      "RK1: the reasons to keep a run are not asked again in the commit",
      "this.#check(jobId, rule);\n      const label",
      "const label",
      ["test/engine/retention.test.ts > keeps a run that is archived after it was chosen"],
    ),
  ),
  keeper(
    "RK1: a rule that was removed meanwhile goes on",
    'return readRule(this.#all)?.set_at === set_at ? null : "the retention rule was changed";',
    "return set_at < 0 ? String(set_at) : null;",
  ),
  keeper(
    "RK2: a computer's clock that is ahead counts",
    "return Math.min(this.#o.clock.now(), this.#o.wall());",
    "return this.#o.wall();",
  ),
  keeper(
    "RK2: a control plane whose time is ahead counts",
    "return Math.min(this.#o.clock.now(), this.#o.wall());",
    "return this.#o.clock.now();",
  ),
  keeper("RK3: a removed run is reported again", "for (const { job_id } of untold) this.#rows.told(job_id);", ""),
  keeper(
    "RK3: what a process removed that has ended is not reported",
    "await this.#tell();\n    } catch",
    "if (due !== null && due.runs.length > 0) await this.#tell();\n    } catch",
  ),

  engine("E5: a job that cannot be loaded is not parked", "tx.store.park(row.id, why);\n    if (why", "if (why", [
    `${RECOVERY}parks an unloadable job`,
  ]),
  engine(
    "E5: a kill does not release the machine of a parked job",
    'return body.type === "job.kill" ? this.#rescue(tx, row, body) : { accepted: false, state: row.state };',
    "return { accepted: false, state: row.state };",
    [`${RECOVERY}parks an unloadable job`],
  ),

  removals(
    "RM5: code is deleted once for each removal",
    "const done = [...this.#waiting];\n    this.#waiting.clear();",
    "const done = [...this.#waiting].slice(0, 1);\n    for (const jobId of done) this.#waiting.delete(jobId);",
  ),
  removals(
    "RM5: code is deleted before the files of the run",
    "this.#o.forget(jobId);",
    "this.#o.forget(jobId);\n      void this.#o.collectCode();",
  ),

  writer(
    "L1: the text is counted before it is written",
    "const lost = text.length > 0 ? await this.#files.write(jobId, start, text) : null;",
    "const lost = null;\n      if (text.length > 0) this.#files.write(jobId, start, text).catch(() => undefined);",
    [`${WRITER}does not count if its text cannot be written`],
  ),
  writer(
    "L2: a write leaves room for what a crash left in the file",
    "const lost = text.length > 0 ? await this.#files.write(jobId, start, text) : null;",
    "const lost = null;\n      if (text.length > 0) await this.#files.write(jobId, (await this.#files.byteAt(jobId, start)) === undefined ? start : start + text.length, text);",
    [`${WRITER}The next part overwrites a part`],
  ),
  writer(
    "L5: lost bytes get no notice",
    'if (lost) tx.feed(jobId, "notice", { level: "warning", message: wordsOfLost(lost) });',
    "void wordsOfLost;",
    [`${WRITER}A log whose file something else`],
  ),
  writer(
    "L3: a part of two writers is counted twice",
    "if (!this.#rows.moveCursor(at, from, to)) throw movedOn(jobId);",
    "this.#rows.moveCursor(at, from, to);",
    [`${WRITER}is counted once, even if two writers store it`],
  ),

  commits(
    "T1: a caller hears of its commit before COMMIT",
    "return { ok: true, value: savepoint ? store.nested(act) : act(), tx };",
    "const value = savepoint ? store.nested(act) : act();\n      waiting.resolve(value);\n      return { ok: true, value, tx };",
    [`${COMMITS}all fail when the commit fails`],
  ),
  commits(
    "T2: the writes of a failed caller stay",
    "value: savepoint ? store.nested(act) : act(), tx };",
    "value: act(), tx };",
    [`${COMMITS}share one transaction, and a failing caller does not affect the others`],
  ),
  commits(
    "T2: the writes of a first try stay",
    "if (!this.#rolledBack()) throw e;\n        this.#forget(verdicts.splice(0));\n        store.begin();",
    "this.#forget(verdicts.splice(0));",
    [`${COMMITS}run again, each for itself`],
  ),
  commits(
    "T3: a group whose COMMIT failed is not rolled back",
    "this.#rolledBack();\n      const error = store.asError(e);",
    "const error = store.asError(e);",
    [`${COMMITS}all fail when the commit fails`],
  ),
  commits(
    "T4: callers that may wait cost an fsync each",
    "if (this.#free >= 1) this.#soon();",
    "if (this.#free >= 0) this.#soon();",
    [`${COMMITS}share one transaction for some milliseconds`],
  ),

  machine(
    "M1: a waiting run may cost money",
    "waiting: {\n      description:",
    'waiting: {\n      tags: ["billable"],\n      description:',
    [`${JOB}waiting has a description, and says whether money may flow in it`],
  ),
  machine(
    "M1: the first node that is ready stands for all",
    "isNode(event) && othersAt(context, event.node, phase),",
    "isNode(event) && phase.length + context.nodes.length > 0,",
    [`${JOB}with 2 nodes continues only when every node is ready`],
  ),
  machine(
    "M3: a run whose machine takes too long ends without a release",
    'target: "terminating",\n          actions: { type: "decide", params: { outcome: "failed", step: "provision" } },',
    'target: "terminal",\n          actions: { type: "decide", params: { outcome: "failed", step: "provision" } },',
    [`${JOB}leads from every billable state through`],
  ),
  machine("M4: a timer ends `terminating`", '"timer.phase": {},', '"timer.phase": { target: "terminal" },', [
    `${JOB}do nothing in`,
  ]),
  machine(
    "M5: a late kill changes the outcome",
    '{ guard: "mayGoOn", actions: { type: "overrule", params: { outcome: "cancelled" } } },',
    '{ actions: { type: "overrule", params: { outcome: "cancelled" } } },',
    [`${JOB}stays when job.kill comes late`],
  ),
  machine(
    "M5: a failed collection turns a kill into a failure",
    'outcome: ({ context }) => (context.outcome === "succeeded" ? ("failed" as const) : context.outcome),',
    'outcome: () => "failed" as const,',
    [`${JOB}stays \`cancelled\` when collection fails after a kill`],
  ),
  machine(
    "M7: a budget that is reached ends nothing",
    '"budget.reached": { target: ".terminating", actions: { type: "decide", params: { outcome: "timed_out" } } },',
    '"budget.reached": {},',
    ["test/engine/budgets.test.ts > is warned about at 75 and 90 percent"],
  ),
  machine(
    "M7: a budget does not end the downloads",
    '"budget.spent": {\n          guard: "collecting",',
    '"budget.spent": {\n          guard: "isHeld",',
    ["test/engine/budgets.test.ts > gives up a download that would cost more than the rest"],
  ),
  forRule(
    "src/machines/job-machine.ts M7",
    rules(
      "M7: another placement follows although the budget cannot pay for it",
      'return decision === "no_progress" || lackOf(event) !== null ? null : decision;',
      'return decision === "no_progress" ? null : decision;',
      ["test/engine/budgets.test.ts > is refused when the rest cannot pay for its start and end"],
    ),
  ),
  machine("M8: a held run orders", "context.candidate !== null && !context.held,", "context.candidate !== null,", [
    "test/engine/home-limits.test.ts > holds back what does not fit",
  ]),
  forRule(
    "src/machines/job-machine.ts M8",
    next(
      "M8: each placement of a run is held again",
      "occupied: false,\n    outcome: null,",
      "occupied: false,\n    held: true,\n    outcome: null,",
      ["test/machines/placements.test.ts > continues at once on another machine"],
    ),
  ),
  versions(
    "V2: only the first migration of a chain is made",
    "shape = migrate(shape);",
    "shape = v === version ? migrate(shape) : shape;",
  ),
  forRule(
    "src/machines/versions.ts V2",
    engine(
      "V2: the journal does not get the base of a migrated job",
      "return { id: row.id, seq: this.#rebase(tx, row, loaded.snapshot).seq, snapshot };",
      "return { id: row.id, seq: row.seq + 0 * tx.at, snapshot };",
      [`${RECOVERY}resumes a parked job once a program knows its state`],
    ),
  ),

  database(
    "D5: a writer does not stop one that it has overtaken",
    "UPDATE fence SET epoch = epoch + 1,",
    "UPDATE fence SET epoch = epoch + 0,",
    ["test/engine/engine.test.ts > writes nothing and reports that"],
  ),
  store(
    "S3: an attempt that was cut short is forgotten",
    '.updateTable("attempt")\n          .set({ status: "cancelled", ended_at: p("ended_at") })\n          .where("effect_id", "=", p("effect_id"))',
    '.deleteFrom("attempt")\n          .where("effect_id", "=", p("effect_id"))',
    [`${RECOVERY}follows only ending jobs in a process that ends some jobs`],
  ),
  store(
    "S3: an event takes the place of the last one",
    'prepare(db, q.insertInto("feed").values(columns("job_id", "at", "type", "data"))),',
    'prepare(db, q.replaceInto("feed").values({ seq: sql<number>`(SELECT max(seq) FROM feed WHERE seq > 4)`, job_id: p("job_id"), at: p("at"), type: p("type"), data: p("data") })),',
    ["test/engine/engine.test.ts > is published after its commit, without gaps"],
  ),

  local("C1: a text of a message is read by a shell", "detached: true });", "detached: true, shell: true });", [
    "test/notify/receivers.test.ts > the desktop's program gets texts as texts",
  ]),
  notifier(
    "N5: an attempt has no end",
    "AbortSignal.any([this.#stop.signal, AbortSignal.timeout(ATTEMPT_MS)]);",
    "AbortSignal.any([this.#stop.signal]);",
    ["test/notify/notifier.test.ts > ends each attempt after 15 s"],
  ),
  outbox(
    "O2: the transaction of an event writes the messages to all targets",
    "if (added) tx.after(this.#wake);",
    'const notices = "[]";\n    for (const { name: target } of added ? this.#rows.targets() : [])\n      this.#rows.insertMessage({ id: `${target} ${tx.at}`, target, job_id, kind, notices, title: words, created_at: tx.at });\n    if (added) tx.after(this.#wake);',
    ["test/notify/notifier.test.ts > costs the transaction of its event one insert"],
  ),
  post(
    "P1: an address inside receives a message",
    "const rules = { allowPrivate, ...(resolver",
    'const rules = { allowPrivate: allowPrivate || url.host !== "", ...(resolver',
    [`${POST}receives nothing if it is inside: https://127.0.0.1/x`],
  ),
  post(
    "P2: a redirect counts as an answer of the target",
    "status >= 200 && status < 300;",
    "status >= 200 && status < 400;",
    [`${POST}is not followed when it redirects`],
  ),
  forRule(
    "src/notify/public-address.ts A2",
    post(
      "A2: a name is resolved again for the connection",
      "return { agent: false, lookup: lookupOf(pinned) };",
      `return {
    agent: false,
    lookup: (name, options, callback) => {
      pinnedAddresses(name, rules).then(
        (again) => lookupOf(again)(name, options, callback),
        (e: Error) => callback(e, "", 4),
      );
    },
  };`,
      [`${POST}is resolved once, so a second answer cannot point elsewhere`],
    ),
  ),
  targets(
    "T1: a target of the home stands beside the one of configure()",
    "return read.success && !Object.hasOwn(configured, name) ? [",
    "return read.success ? [",
  ),
  targets(
    "T1: a target of the home adds its settings to the one of configure()",
    'target,\n      from: "registry",',
    'target: { ...this.#storedTarget(name), ...target },\n      from: "registry",',
  ),
];
