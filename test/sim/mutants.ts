// Deliberate defects in copies of the engine. A simulation that does not detect them proves nothing about the rest.

import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BatchResult } from "./batch.child.ts";
import { inLanes, ROOT, runBatch } from "./fleet.ts";

export interface Patch {
  file: string;
  find: string;
  replace: string;
}

export interface Mutant {
  name: string;
  /** Mutants that a short run must detect, too. */
  main: boolean;
  patches: Patch[];
  /** The invariants of heads that it breaks, as `src/ssh/tree.ts T1`, where its name and its files do not say so. */
  rules?: string[];
}

/** A defect that tests must detect, not the simulation. */
export interface TestedMutant extends Omit<Mutant, "main"> {
  /** The tests that must fail: files, relative to the tree, each alone or with ` > ` and the beginning of titles. */
  tests: string[];
}

/** Makes mutants of one file: each has one patch, and `tests` unless it names its own. */
export const single =
  (head: string, file: string, tests: string[]) =>
  (name: string, find: string, replace: string, own = tests): TestedMutant => ({
    name: `${head} ${name}`,
    patches: [{ file, find, replace }],
    tests: own,
  });

/** The invariant is in another file's head. */
export const forRule = (rule: string, mutant: TestedMutant): TestedMutant => ({ ...mutant, rules: [rule] });

const engine = (find: string, replace: string): Patch => ({ file: "src/engine/engine.ts", find, replace });
const provision = (find: string, replace: string): Patch => ({ file: "src/steps/provision.ts", find, replace });
const look = (find: string, replace: string): Patch => ({
  file: "src/steps/rental/resolve-lost-order.ts",
  find,
  replace,
});
const effects = (find: string, replace: string): Patch => ({ file: "src/engine/effect-runner.ts", find, replace });
const terminate = (find: string, replace: string): Patch => ({ file: "src/steps/terminate.ts", find, replace });
const store = (find: string, replace: string): Patch => ({ file: "src/store/engine-store.ts", find, replace });

const HORIZON = "const certainAt = entry.horizonAt + certainty.listingLagMs;";
const INTEND = "await ports.ledger.intend({ ...intent, horizonAt: horizon() });";
const CREATE = "handle = await provider.create(offer, { name, jobId, node, spec, limit });";

const next = (find: string, replace: string): Patch => ({ file: "src/machines/next-placement.ts", find, replace });
const machine = (find: string, replace: string): Patch => ({ file: "src/machines/job-machine.ts", find, replace });

export const MUTANTS: readonly Mutant[] = [
  {
    name: "another placement begins when the first node is released",
    main: true,
    patches: [
      machine('isNode(event) && othersAt(context, event.node, "released") && goesOn', "isNode(event) && goesOn"),
    ],
    rules: ["src/machines/job-machine.ts M4", "src/machines/job-machine.ts M6"],
  },
  {
    name: "a kill does not keep another placement from following",
    main: true,
    patches: [
      machine(
        "outcome: (_, { outcome }: { outcome: Outcome }) => outcome,",
        "outcome: ({ context }, { outcome }: { outcome: Outcome }) => context.outcome ?? outcome,",
      ),
    ],
    rules: ["src/machines/job-machine.ts M6"],
  },
  {
    name: "retries are not counted",
    main: true,
    patches: [next('retries: context.retries + (next.because === "retry" ? 1 : 0)', "retries: context.retries")],
  },
  {
    name: "preemptions are not counted",
    main: false,
    patches: [next("    preemptions,\n", "    preemptions: 0 * preemptions,\n")],
  },
  {
    name: "a failure that comes back without a new checkpoint is not noticed",
    main: true,
    patches: [next('return "no_progress";', "void key;")],
  },
  {
    name: "a machine of an earlier placement is used",
    main: false,
    patches: [provision("|| entry.placement !== placement", "")],
  },
  {
    name: "a sweep leaves what a late answer reopened to the job that has moved on",
    main: false,
    patches: [
      {
        file: "src/engine/reconcile.ts",
        find: 'job.state !== "waiting" && order.placement === engine.placement(job.id).n && !ledger.isSuperseded(order)',
        replace: "order.placement > 0 * engine.placement(job.id).n",
      },
    ],
  },
  {
    name: "an order of unknown outcome does not keep the next placement from following",
    main: true,
    patches: [
      terminate(
        'if (found.is === "open") return { later: { afterMs: found.afterMs, why: found.why } };',
        'if (found.is === "open") return null;',
      ),
    ],
  },
  {
    name: "a release under way does not keep the next placement from following",
    main: false,
    patches: [terminate("return { later: { afterMs: LOOK_AGAIN_MS, why } };", "return null;")],
  },
  {
    name: "the next placement's rows bear the number of the last one",
    main: true,
    patches: [
      {
        file: "src/engine/ledger.ts",
        find: "placement: Math.max(1, this.#engine.placement(order.jobId).n),",
        replace: "placement: Math.max(1, this.#engine.placement(order.jobId).n - 1),",
      },
    ],
  },
  {
    name: "a search is forgotten by a restart",
    main: false,
    patches: [engine("(this.#live.get(jobId) ?? this.#committed(jobId))", "this.#live.get(jobId)")],
  },
  {
    name: "late completions are accepted",
    main: true,
    patches: [
      effects("    limit?.clear();\n    if (running.cancelled) return;", "    limit?.clear();"),
      store('.where("attempt", "=", p("attempt"))\n          .where("state", "=", lit("running")),', ","),
    ],
    rules: ["src/engine/engine.ts E2"],
  },
  {
    name: "timers are forgotten at recovery",
    main: true,
    patches: [engine("if (alive.has(timer.job_id)) tx.after(", "if (timer.job_id === '') tx.after(")],
    rules: ["src/engine/engine.ts E4"],
  },
  {
    name: "open effects are not begun again at recovery",
    main: true,
    patches: [
      engine(
        "if (alive.has(effect.job_id)) this.#resume(tx, effect);",
        "if (effect.job_id === '') this.#resume(tx, effect);",
      ),
    ],
    rules: ["src/engine/engine.ts E1"],
  },
  {
    name: "the intent is committed after the request",
    main: true,
    patches: [provision(INTEND, ""), provision(CREATE, `${CREATE}\n    ${INTEND}`)],
    rules: ["src/steps/provision.ts R1"],
  },
  {
    name: "an intent that grew old is not renewed",
    main: false,
    patches: [provision("while (ports.now() - stampedAt > INTENT_FRESH_MS)", "while (stampedAt < 0)")],
  },
  {
    name: "the horizon leaves no room between intent and request",
    main: false,
    patches: [
      provision(
        "ports.now() + INTENT_FRESH_MS + provider.certainty.horizonMs",
        "ports.now() + provider.certainty.horizonMs",
      ),
    ],
  },
  {
    name: "a lost answer counts as a failure and is ordered again",
    main: true,
    patches: [
      provision(
        `await ports.ledger.unknown(name, { kind: "order_unknown", message: "The create call failed or its answer was lost; the machine may exist and cost money until svc has looked it up." },`,
        'await ports.ledger.released(name, "the answer was lost"); void Array.of(',
      ),
    ],
  },
  {
    name: "an order is not looked up before the next one",
    main: true,
    patches: [
      provision(
        "for (const entry of ports.ledger.open(jobId, node)) {",
        "for (const entry of ports.ledger.open(jobId, -1)) {",
      ),
    ],
  },
  {
    name: "no request horizon",
    main: true,
    patches: [look(HORIZON, "const certainAt = entry.createdAt + certainty.listingLagMs;")],
  },
  {
    name: "no wait for a listing that lags",
    main: false,
    patches: [look(HORIZON, "const certainAt = entry.horizonAt;")],
  },
  {
    name: "an empty listing counts from its answer",
    main: false,
    patches: [look("const wait = certainAt - askedAt;", "const wait = certainAt - ports.now() + 0 * askedAt;")],
  },
  {
    name: "a listing that failed counts as an empty one",
    main: false,
    patches: [
      look(
        "await ownedMachines(provider, prefix, signal);",
        "await ownedMachines(provider, prefix, signal).catch(() => ({ machines: [], missing: null }));",
      ),
    ],
  },
  {
    name: "released right after the call, without a proof",
    main: true,
    patches: [terminate('if (status.phase === "gone") {', 'if (String(status.phase) !== "") {')],
  },
  {
    name: "a journal row is missing",
    main: true,
    patches: [
      store(
        "insertJournal(row: JournalRow): void {",
        'insertJournal(row: JournalRow): void {\n    if (row.type === "install.done") return;',
      ),
    ],
  },
  {
    name: "effects are not cancelled with the state that asked for them",
    main: true,
    patches: [engine("      for (const effect of tx.store.openEffectsOf(id)) this.#cancel(tx, effect);\n", "")],
    rules: ["src/engine/engine.ts E3", "src/machines/job-machine.ts M2"],
  },
  {
    name: "timers outlive the state that set them",
    main: false,
    patches: [engine("      tx.store.clearTimers(id);\n", "")],
    rules: ["src/engine/engine.ts E3", "src/machines/job-machine.ts M2"],
  },
  {
    name: "a result and its transition are two transactions",
    main: true,
    patches: [
      engine(
        "this.apply(tx, effect.job_id, { type: `${step}.done`, node: effect.node, ...verdict.output } as unknown as EventBody);",
        "tx.after(() => void this.send(effect.job_id, { type: `${step}.done`, node: effect.node, ...verdict.output } as unknown as EventBody));",
      ),
    ],
    rules: ["src/engine/engine.ts E2"],
  },
  {
    name: "the epoch is not checked",
    main: true,
    patches: [store("    try {\n      this.checkEpoch();\n", "    try {\n")],
    rules: ["src/store/engine-store.ts S1"],
  },
  {
    name: "effects begin before the commit",
    main: false,
    patches: [
      {
        file: "src/engine/transaction.ts",
        find: '      this.#o.probe("commit.before");',
        replace:
          '      for (const v of verdicts) if (v.ok) for (const after of v.tx.afters.splice(0)) after();\n      this.#o.probe("commit.before");',
      },
    ],
    rules: ["src/engine/engine.ts E1", "src/engine/transaction.ts T1"],
  },
  {
    name: "memory keeps what a failed commit had changed",
    main: false,
    patches: [engine("for (const id of jobs) this.#live.delete(id);", "for (const id of jobs) this.#live.has(id);")],
    rules: ["src/engine/transaction.ts T3"],
  },
  {
    name: "a machine found again is not held to the price cap",
    main: false,
    patches: [
      provision(
        'if (found.is === "held") return affordably(provider, spec, found.handle);',
        'if (found.is === "held") return done(found.handle);',
      ),
    ],
  },
  {
    name: "a collection that is given up takes released nodes back",
    main: false,
    patches: [
      {
        file: "src/machines/job-machine.ts",
        find: 'n.phase === "released" ? n : {',
        replace: 'n.phase === "collected" ? n : {',
      },
    ],
  },
  {
    name: "an effect that its own commit cancels is begun",
    main: false,
    patches: [effects("Promise.resolve().then(() => this.#run(effect, running))", "this.#run(effect, running)")],
  },
  {
    name: "a sweep passes by what a row explains",
    main: false,
    patches: [
      {
        file: "src/engine/reconcile.ts",
        find: "if (isOrphan(parts, handle) &&",
        replace: "if (!parts.ledger.row(handle.name) && isOrphan(parts, handle) &&",
      },
    ],
  },
  {
    name: "budget: machines that have ended count nothing",
    main: true,
    patches: [
      {
        file: "src/domain/billing.ts",
        find: "const existed = machine.held_at !== null;",
        replace: "const existed = machine.held_at !== null;\n  if (existed && !mayCost(machine)) return 0;",
      },
    ],
  },
  {
    name: "budget: an order that ended itself before a list could show it counts nothing",
    main: false,
    patches: [
      {
        file: "src/domain/billing.ts",
        find: "if (!mayCost(machine)) return machine.doubt_at ?? null;",
        replace: "if (!mayCost(machine)) return null;",
      },
    ],
  },
  {
    name: "budget: an order counts though a list was taken in time",
    main: false,
    patches: [look("firstAt >= (entry.endsFrom ?? Infinity)", "firstAt >= 0")],
  },
  {
    name: "budget: a restart looks at no run",
    main: false,
    patches: [
      {
        file: "src/engine/budgets.ts",
        find: "for (const { id } of this.#o.engine.store.liveJobs()) this.#soon(id);",
        replace: "",
      },
    ],
  },
  {
    name: "budget: a raise is accepted while the end is under way",
    main: false,
    patches: [
      {
        file: "src/engine/change-run.ts",
        find: 'if (row.state === "terminating" && !mayGoOn(context)) return "its end is under way";',
        replace: "",
      },
    ],
  },
  {
    name: "budget: an order of several nodes is limited as one machine",
    main: false,
    patches: [
      {
        file: "src/engine/budgets.ts",
        find: "Math.max(rateMicro, each * spec.nodes)",
        replace: "Math.max(rateMicro, each)",
      },
    ],
  },
  {
    name: "budget: another machine is ordered though the rest is too small",
    main: false,
    patches: [terminate("const lack = ports.budget?.lack(jobId) ?? null;", "const lack = null;")],
  },
];

export interface Score {
  name: string;
  /** The first seed that detected the mutant; null if it survived. */
  seed: number | null;
  what: string;
  runs: number;
}

/** A pattern for the text, however a formatter breaks its lines. */
function loosely(find: string): RegExp {
  const tokens = find.match(/\w+|[^\w\s]/g) ?? [];
  const escaped = tokens.map(
    (token) => (/[)}\]]/.test(token) ? ",?\\s*" : "") + token.replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&"),
  );
  return new RegExp(escaped.join("\\s*"), "g");
}

/**
 * The patched text of each file of a mutant. Throws if a patch does not fit in exactly one place.
 * @param onTopOf texts that other mutants have changed
 */
export function patched(
  mutant: Pick<Mutant, "name" | "patches">,
  onTopOf: ReadonlyMap<string, string> = new Map(),
): Map<string, string> {
  const texts = new Map<string, string>();
  for (const { file, find, replace } of mutant.patches) {
    const text = texts.get(file) ?? onTopOf.get(file) ?? readFileSync(join(ROOT, file), "utf8");
    const pattern = loosely(find);
    const places = [...text.matchAll(pattern)].length;
    if (places !== 1) throw new Error(`the mutant "${mutant.name}" fits ${places} places of ${file}; it must fit one`);
    texts.set(
      file,
      text.replace(pattern, () => replace),
    );
  }
  return texts;
}

/** Creates a patched copy of the tree in a place where packages resolve as in the original. */
function plant(mutant: Mutant, root: string): void {
  mkdirSync(root, { recursive: true });
  for (const folder of ["src", "test/sim"]) cpSync(join(ROOT, folder), join(root, folder), { recursive: true });
  for (const [file, text] of patched(mutant)) writeFileSync(join(root, file), text);
}

export async function score(
  mutants: readonly Mutant[],
  seeds: { from: number; count: number },
  lanes: number,
  done?: (s: Score) => void,
): Promise<Score[]> {
  const folder = join(ROOT, ".cache", `sim-mutants-${process.pid}`);
  try {
    const planted = mutants.map((mutant, i) => {
      const root = join(folder, String(i));
      plant(mutant, root);
      return { mutant, root };
    });
    return await inLanes(planted, lanes, async ({ mutant, root }) => {
      const { counts } = (await runBatch({ kind: "random", ...seeds, stopAtFirst: true }, root)) as Extract<
        BatchResult,
        { kind: "random" }
      >;
      const first = counts.failures[0];
      const result: Score = {
        name: mutant.name,
        seed: first?.seed ?? null,
        what: first?.what ?? "",
        runs: counts.runs,
      };
      done?.(result);
      return result;
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
