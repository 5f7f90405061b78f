// Splits the time from a run's submission to its script into parts with an owner and a price: the provider, svc, and the run's
// own code, data and packages. `svc timeline` and the page of a run draw it.
//
// S1. Only the last placement counts: earlier ones have accounts of their own.
// S2. The node that was ready last counts: the script of several nodes began with it.
// S3. Each moment has one owner. Time between two steps is svc's.
// S4. A part costs what all machines of the placement owed meanwhile, each from its order on, at the last price. With a
//     machine of unknown price the cost is unknown, never 0.

import type { JobMachine, StepName, Timeline, TimelineStep } from "../schemas/job.ts";

export const START_OWNERS = ["search", "provider", "yours", "install", "svc"] as const;
export type StartOwner = (typeof START_OWNERS)[number];

/** Machine and image: an order until the machine answers. Yours: code and data. */
const OWNER: Partial<Record<StepName, StartOwner>> = {
  place: "search",
  provision: "provider",
  await_ssh: "provider",
  sync: "yours",
  install: "install",
};

export const OWNER_WORDS: Readonly<Record<StartOwner, string>> = {
  search: "finding a machine",
  provider: "provider, with its image",
  yours: "your code and data",
  install: "packages",
  svc: "svc",
};

export interface StartPart {
  owner: StartOwner;
  ms: number;
  /** Dollars; null if the price of a machine is unknown. */
  usd: number | null;
}

const HOUR_MS = 3_600_000;
const ms = (at: string): number => Date.parse(at);

/** The parts in the order of START_OWNERS, without empty ones; null if the script has not begun. */
export function startParts(
  { steps }: Pick<Timeline, "steps">,
  { created_at, machines }: { created_at: string; machines: readonly JobMachine[] },
): StartPart[] | null {
  const last = steps.findLast(({ step, started_at }) => step === "stream" && started_at !== null)?.placement;
  if (last === undefined) return null;
  const own = steps.filter((step) => step.placement === last || (step.step === "place" && (last ?? 1) === 1));
  // A control plane that starts again follows the script anew: that is another attempt, not its start.
  const begun = own
    .filter(({ step, started_at }) => step === "stream" && started_at !== null)
    .filter(({ node, started_at }, _, all) =>
      all.every((other) => other.node !== node || ms(other.started_at ?? "") >= ms(started_at ?? "")),
    );
  const ready = begun.reduce(
    (a, b) => (ms(b.started_at ?? "") > ms(a.started_at ?? "") ? b : a),
    begun[0] as TimelineStep,
  );
  const end = ms(ready.started_at ?? "");
  const before = own.filter(
    (step) =>
      step.started_at !== null && ms(step.started_at) < end && (step.node === ready.node || step.step === "place"),
  );
  // S1: a later placement begins with its own first step.
  const from =
    (last ?? 1) === 1 ? ms(created_at) : Math.min(end, ...before.map(({ started_at }) => ms(started_at ?? "")));
  const sums = new Map<StartOwner, { ms: number; usd: number | null }>();
  const add = (owner: StartOwner, a: number, b: number): void => {
    if (b <= a) return;
    const sum = sums.get(owner) ?? { ms: 0, usd: 0 };
    const cost = owed(machines, a, b);
    sums.set(owner, { ms: sum.ms + b - a, usd: sum.usd === null || cost === null ? null : sum.usd + cost });
  };
  let at = from;
  for (const step of before.toSorted((a, b) => ms(a.started_at ?? "") - ms(b.started_at ?? ""))) {
    const start = Math.max(at, ms(step.started_at ?? ""));
    add("svc", at, start);
    const until = Math.min(end, Math.max(start, step.ended_at === null ? end : ms(step.ended_at)));
    add(OWNER[step.step] ?? "svc", start, until);
    at = until;
  }
  add("svc", at, end);
  return START_OWNERS.flatMap((owner) => {
    const sum = sums.get(owner);
    return sum ? [{ owner, ...sum }] : [];
  });
}

/** The dollars that the machines owed from `a` to `b`. */
function owed(machines: readonly JobMachine[], a: number, b: number): number | null {
  let sum = 0;
  for (const { created_at, terminated_at, price_per_hour_usd: price } of machines) {
    const held = Math.min(b, terminated_at === null ? b : ms(terminated_at)) - Math.max(a, ms(created_at));
    if (held <= 0) continue;
    if (price === null) return null;
    sum += (held / HOUR_MS) * price;
  }
  return sum;
}
