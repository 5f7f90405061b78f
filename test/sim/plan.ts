// The plan of one run of the simulation: the work, the provider's behaviour and the crashes. All of it follows from the
// seed.

import { NO_FURTHER_PLACEMENTS, type PlacementRules } from "../../src/machines/job-context.ts";
import type { Certainty } from "../../src/providers/provider.ts";
import { Rng } from "./world.ts";

/** Probabilities, each between 0 and 1, of faults that a provider may have within its contract. */
export interface Faults {
  createLost: number;
  createFailsBefore: number;
  createFailsAfter: number;
  createLate: number;
  createAnswersSlowly: number;
  createDoubles: number;
  dearer: number;
  /** A machine costs less until it is ready. */
  cheapBoot: number;
  offersFail: number;
  listFails: number;
  inspectFails: number;
  /** Probability that a call's answer takes up to a minute. */
  slowAnswer: number;
  /** Probability that a call is never answered. */
  noAnswer: number;
  terminateFails: number;
  terminateLies: number;
  neverReady: number;
  /** Probability that a machine vanishes at some time: preempted, or ended by hand. */
  vanishes: number;
  /** Share of vanished machines that the provider took back. */
  preempts: number;
  /** Probability that a listing of offers is empty, and that a host never brings its machine up. */
  noStock: number;
  badHost: number;
  stepFails: number;
  stepHangs: number;
  /** Probability that a commit takes seconds, and that the disk is full for a while. */
  slowCommit: number;
  diskFull: number;
}

export const IDEAL: Faults = {
  createLost: 0,
  createFailsBefore: 0,
  createFailsAfter: 0,
  createLate: 0,
  createAnswersSlowly: 0,
  createDoubles: 0,
  dearer: 0,
  cheapBoot: 0,
  offersFail: 0,
  listFails: 0,
  inspectFails: 0,
  slowAnswer: 0,
  noAnswer: 0,
  terminateFails: 0,
  terminateLies: 0,
  neverReady: 0,
  vanishes: 0,
  preempts: 0,
  noStock: 0,
  badHost: 0,
  stepFails: 0,
  stepHangs: 0,
  slowCommit: 0,
  diskFull: 0,
};

export interface JobPlan {
  id: string;
  submitAtMs: number;
  nodes: number;
  runMs: number[];
  exitCode: number[];
  maxRuntimeMinutes: number;
  priceCap: number | null;
  killAtMs: number[];
  endAtMs: number | null;
  idleAtMs: number | null;
  further: Further;
  /** Micro-dollars; null for none. */
  budgetMicro: number | null;
  /** A user raises the budget then, and perhaps when it is reached. */
  raiseAtMs: number | null;
}

export const PROVIDERS = ["podhost", "market", "cloudvm"] as const;
export type SimProviderName = (typeof PROVIDERS)[number];

/** A job's rules for further machines. */
export interface Further {
  candidates: readonly SimProviderName[];
  choose: "in_order" | "cheapest";
  waitMs: number;
  rules: PlacementRules;
}

const ONE_MACHINE: Further = { candidates: ["podhost"], choose: "in_order", waitMs: 0, rules: NO_FURTHER_PLACEMENTS };

/** The faults of a provider that otherwise keeps every promise. */
export interface Scripted {
  /** Candidates that never have a machine. */
  noStock?: readonly SimProviderName[];
  /** The number of first machines that never boot. */
  badHosts?: number;
  /** The time after which the first machine with a script is taken back. */
  preemptAfterMs?: number;
}

export interface Crash {
  /** Number of boundaries since the last start. */
  afterBoundaries: number;
  downMs: number;
  /** `killed`: the process loses all memory. `usurped`: a second process takes over while the first still runs. */
  how: "killed" | "usurped";
  /** Damages the snapshot of a job meanwhile, so that the job must be parked. */
  damage: boolean;
}

export interface Plan {
  seed: number;
  ideal: boolean;
  certainty: Certainty;
  faults: Faults;
  jobs: JobPlan[];
  crashes: Crash[];
  scripted?: Scripted;
  /** Null if no job has a budget. Without guards the control plane alone holds it, and no fault keeps machines alive. */
  budgets: { guards: boolean } | null;
}

const MINUTE = 60_000;

function jobPlan(rng: Rng, n: number): JobPlan {
  const nodes = rng.pick([1, 1, 1, 2, 2, 3]);
  const longest = rng.pick([20_000, 10 * MINUTE, 3 * 60 * MINUTE]);
  const horizon = rng.pick([3_000, 60_000, 10 * MINUTE, 60 * MINUTE, 3 * 60 * MINUTE]);
  const fails = rng.chance(0.2);
  return {
    id: `j${n}`,
    submitAtMs: rng.int(0, rng.pick([100, 30_000])),
    nodes,
    runMs: Array.from({ length: nodes }, () => rng.int(0, longest)),
    exitCode: Array.from({ length: nodes }, () => (fails && rng.chance(0.6) ? 1 : 0)),
    maxRuntimeMinutes: rng.chance(0.25) ? rng.int(1, 60) : 0,
    priceCap: rng.chance(0.4) ? 2 : null,
    killAtMs: rng.chance(0.45) ? Array.from({ length: rng.int(1, 2) }, () => rng.int(0, horizon)) : [],
    endAtMs: rng.chance(0.12) ? rng.int(0, horizon) : null,
    idleAtMs: rng.chance(0.08) ? rng.int(0, horizon) : null,
    further: rng.chance(0.3) ? ONE_MACHINE : further(rng),
    budgetMicro: null,
    raiseAtMs: null,
  };
}

function further(rng: Rng): Further {
  const candidates = PROVIDERS.slice(0, rng.int(1, 3)).toSorted(() => rng.next() - 0.5);
  const waitMs = rng.chance(0.4) ? rng.int(1, 120) * MINUTE : 0;
  return {
    candidates,
    choose: rng.pick(["in_order", "cheapest"]),
    waitMs,
    rules: {
      searches: candidates.length > 1 || waitMs > 0,
      retry_max: rng.int(0, 4),
      retry_on: rng.pick([
        ["machine_unfit", "boot_failed"],
        ["machine_unfit", "boot_failed", "machine_lost", "preempted", "exit:1"],
      ]),
      recovers: rng.chance(0.7),
      max_preemptions: rng.int(0, 3),
      falls_back: rng.chance(0.3),
    },
  };
}

/** A faulty provider and a random workload. */
export function randomPlan(seed: number): Plan {
  const rng = new Rng(seed ^ 0x5eed);
  const harsh = rng.pick([0.3, 1, 1, 1.6]);
  const some = (p: number): number => (rng.chance(0.75) ? p * harsh : 0);
  const certainty: Certainty = {
    horizonMs: rng.int(2_000, 60_000),
    listingLagMs: rng.chance(0.3) ? 0 : rng.int(500, 20_000),
    emptyLooks: rng.int(1, 3),
    lookGapMs: rng.int(500, 6_000),
  };
  const faults: Faults = {
    createLost: some(0.15),
    createFailsBefore: some(0.08),
    createFailsAfter: some(0.08),
    createLate: some(0.3),
    createAnswersSlowly: some(0.1),
    createDoubles: some(0.03),
    dearer: some(0.08),
    cheapBoot: some(0.3),
    offersFail: some(0.05),
    listFails: some(0.1),
    inspectFails: some(0.05),
    slowAnswer: some(0.05),
    noAnswer: some(0.02),
    terminateFails: some(0.12),
    terminateLies: some(0.15),
    neverReady: some(0.05),
    vanishes: some(0.2),
    preempts: 0.5,
    noStock: some(0.25),
    badHost: some(0.1),
    stepFails: some(0.1),
    stepHangs: some(0.05),
    slowCommit: some(0.03),
    diskFull: rng.chance(0.15) ? 0.004 : 0,
  };
  const crashes = Array.from({ length: rng.pick([0, 1, 1, 2, 2, 3, 4]) }, (): Crash => ({
    afterBoundaries: rng.int(1, rng.pick([10, 60, 200])),
    downMs: rng.pick([0, 200, rng.int(0, 60_000), rng.int(0, 90 * MINUTE)]),
    how: rng.chance(0.12) ? "usurped" : "killed",
    damage: rng.chance(0.05),
  }));
  const jobs = Array.from({ length: rng.pick([1, 1, 1, 2, 3]) }, (_, n) => jobPlan(rng, n + 1));
  return withBudgets({ seed, ideal: false, certainty, faults, jobs, crashes, budgets: null });
}

/** Dollars per hour of a simulated machine, in micro-dollars. */
export const PRICE_MICRO = 1_500_000;

/** A quarter of the plans have budgets. They draw from a generator of their own, so that all other plans stay the same. */
function withBudgets(plan: Plan): Plan {
  const rng = new Rng(plan.seed ^ 0xb0d6e7);
  if (!rng.chance(0.25)) return plan;
  const jobs = plan.jobs.map((job): JobPlan => {
    const seconds = rng.int(110, rng.pick([300, 1_200, 7_200]));
    const budgetMicro = Math.ceil((PRICE_MICRO * job.nodes * seconds) / 3_600);
    // Longer than the budget, mostly.
    const runMs = rng.chance(0.7) ? job.runMs.map((ms) => ms + seconds * 1_000) : job.runMs;
    return { ...job, budgetMicro, runMs, raiseAtMs: rng.chance(0.4) ? rng.int(0, seconds * 1_000) : null };
  });
  if (rng.chance(0.5)) {
    const guarded = { ...plan, jobs, budgets: { guards: true } };
    if (!rng.chance(0.4)) return guarded;
    // The first answers are lost while the computer sleeps, longer than the budget lasts: the machine ends itself unseen.
    const away = (): Crash => ({
      afterBoundaries: rng.int(8, 30),
      downMs: rng.int(5 * MINUTE, 180 * MINUTE),
      how: "killed",
      damage: false,
    });
    return { ...guarded, faults: { ...plan.faults, createLost: 0.6 }, crashes: [away(), away(), ...plan.crashes] };
  }
  const { vanishes, preempts, badHost, noStock, offersFail, createFailsBefore } = plan.faults;
  const faults = { ...IDEAL, vanishes, preempts, badHost, noStock, offersFail, createFailsBefore };
  const crashes = plan.crashes.map((crash): Crash => ({ ...crash, how: "killed", damage: false }));
  return { ...plan, jobs, faults, crashes, budgets: { guards: false } };
}

export const WORKLOADS = [
  "happy",
  "cancelled while ordering",
  "cancelled while running",
  "two nodes",
  "second candidate",
  "bad host",
  "preempted",
] as const;
export type Workload = (typeof WORKLOADS)[number];

const KILLED_AT_MS: Partial<Record<Workload, number>> = {
  "cancelled while ordering": 12,
  "cancelled while running": 1_000,
};

const RENTED: PlacementRules = {
  searches: false,
  retry_max: 2,
  retry_on: ["machine_unfit", "boot_failed"],
  recovers: true,
  max_preemptions: 10,
  falls_back: false,
};
const FURTHER: Partial<Record<Workload, Further>> = {
  "second candidate": {
    candidates: ["podhost", "market"],
    choose: "in_order",
    waitMs: 0,
    rules: { ...RENTED, searches: true },
  },
  "bad host": { ...ONE_MACHINE, rules: RENTED },
  preempted: { ...ONE_MACHINE, rules: RENTED },
};
const SCRIPTED: Partial<Record<Workload, Scripted>> = {
  "second candidate": { noStock: ["podhost"] },
  "bad host": { badHosts: 1 },
  preempted: { preemptAfterMs: 2_500 },
};
/** The script of this workload outlasts its first machine. */
const LONG_MS = 6_000;

/** A provider that keeps every promise at once: any fault is then the engine's own. */
export function idealPlan(workload: Workload, crashAt: number[]): Plan {
  const nodes = workload === "two nodes" ? 2 : 1;
  const job: JobPlan = {
    id: "j1",
    submitAtMs: 100,
    nodes,
    runMs: workload === "preempted" ? [LONG_MS] : [1_000, 3_000].slice(0, nodes),
    exitCode: [0, 0].slice(0, nodes),
    maxRuntimeMinutes: 0,
    priceCap: 2,
    killAtMs: KILLED_AT_MS[workload] === undefined ? [] : [KILLED_AT_MS[workload]],
    endAtMs: null,
    idleAtMs: null,
    further: FURTHER[workload] ?? ONE_MACHINE,
    budgetMicro: null,
    raiseAtMs: null,
  };
  return {
    scripted: SCRIPTED[workload] ?? {},
    seed: 1,
    budgets: null,
    ideal: true,
    certainty: { horizonMs: 1_000, listingLagMs: 500, emptyLooks: 2, lookGapMs: 500 },
    faults: IDEAL,
    jobs: [job],
    crashes: crashAt.map((afterBoundaries) => ({ afterBoundaries, downMs: 700, how: "killed", damage: false })),
  };
}
