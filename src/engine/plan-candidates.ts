// Asks every candidate of a run for its offers, all at once, for the plan. A provider that answers slowly or fails holds up no other: once
// there are offers, it gets SLOW_MS, as in the place step.

import { candidateCount, candidateSpec } from "../domain/candidates.ts";
import { pause, type Clock } from "../domain/clock.ts";
import { usdOf, usdOrNull } from "../domain/money.ts";
import { asSvcError, SvcError } from "../errors/index.ts";
import type { Account, Offer, Provider } from "../providers/provider.ts";
import type { Plan, PlanCandidate, PlanOffer, StartTimes } from "../schemas/plan.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { budgetLasts } from "./budget-lasts.ts";
import { affordable, withinCap } from "../steps/provision.ts";

/** How long one candidate may take. */
const ASK_MS = 20_000;
const SLOW_MS = 4_000;
const OFFERS_SHOWN = 12;
/** The result of each candidate, if there are several. */
const OFFERS_SHOWN_MIN = 3;

type Refusal = Plan["refusals"][number];

export interface CandidateParts {
  clock: Clock;
  /** Undefined if it cannot be used here. */
  providerOf: (name: RunSpec["provider"]) => Provider | undefined;
  isConnected: (name: RunSpec["provider"]) => boolean;
  /** Throws the reason why the candidate can never serve the run. */
  checkCandidate: (index: number) => void;
  startTimes: (provider: string, gpus: string) => StartTimes | null;
  history: (provider: RunSpec["provider"], gpus: string) => PlanCandidate["history"];
}

export interface AskedCandidate {
  candidate: PlanCandidate;
  spec: RunSpec;
  provider: Provider | undefined;
  offers: PlanOffer[];
  refusals: Refusal[];
  account: Account | null;
}

/** @param isAskable false if the run itself contradicts every machine: then no provider is asked. */
export async function askCandidates(
  spec: RunSpec,
  parts: CandidateParts,
  isAskable: boolean,
): Promise<AskedCandidate[]> {
  const count = candidateCount(spec);
  const accounts = new Map<string, Promise<Account | null>>();
  const over = new AbortController();
  const slow = pause(parts.clock, SLOW_MS, over.signal);
  const first = Promise.withResolvers<void>();
  const late = count === 1 ? null : Promise.all([slow, first.promise]);
  slow.catch(() => undefined);
  late?.catch(() => undefined);
  const about = { isAskable, late, found: first.resolve };
  const asked = await Promise.all(
    Array.from({ length: count }, (_, index) => ask(candidateSpec(spec, index), index, parts, accounts, about)),
  );
  over.abort();
  const now = parts.clock.monotonic();
  const shown = count === 1 ? OFFERS_SHOWN : Math.max(OFFERS_SHOWN_MIN, Math.floor((2 * OFFERS_SHOWN) / count));
  return asked.map(({ listed, answeredAt, ...rest }) => ({
    ...rest,
    offers: listed.slice(0, shown).map((offer): PlanOffer => ({
      id: offer.id,
      candidate: rest.candidate.candidate,
      provider: rest.spec.provider,
      spot: offer.spot === true,
      price_per_hour_usd: usdOrNull(offer.priceMicro),
      facts: offer.facts ?? {},
      within_cap: withinCap(rest.spec, offer.priceMicro),
      avoided: offer.avoided ?? null,
      age_seconds: ((offer.agoMs ?? 0) + Math.max(0, now - (answeredAt ?? now))) / 1_000,
      budget_lasts_seconds:
        offer.priceMicro === null ? null : budgetLasts(rest.spec, offer.priceMicro * rest.spec.nodes),
    })),
  }));
}

async function ask(
  spec: RunSpec,
  index: number,
  parts: CandidateParts,
  accounts: Map<string, Promise<Account | null>>,
  { isAskable, late, found }: { isAskable: boolean; late: Promise<unknown> | null; found: () => void },
): Promise<Omit<AskedCandidate, "offers"> & { listed: Offer[]; answeredAt: number | null }> {
  const provider = parts.providerOf(spec.provider);
  const begun = parts.clock.monotonic();
  const refusals: Refusal[] = [];
  let listed: Offer[] = [];
  let price: number | null = null;
  let answeredAt: number | null = null;
  let account: Account | null = null;
  try {
    parts.checkCandidate(index);
    if (provider !== undefined && isAskable && parts.isConnected(spec.provider)) {
      const told = accountOf(provider, accounts);
      // A spec with one machine waits for its whole answer; several candidates must not wait for one of them.
      const answer = provider
        .listOffers(spec, AbortSignal.timeout(ASK_MS), late === null ? "look" : "glance")
        .finally(() => {
          answeredAt = parts.clock.monotonic();
        });
      listed = await (late === null ? answer : Promise.race([answer, late.then(() => unknownYet(spec, answer))]));
      if (listed.length > 0) found();
      account = await (late === null ? told : Promise.race([told, late.then(() => null)]));
      const cheapest = affordable(provider, spec, listed)[0]?.priceMicro ?? null;
      price = cheapest === null ? null : usdOf(cheapest * spec.nodes);
    }
  } catch (e) {
    const field = late === null ? null : `spec.candidates.${index}`;
    refusals.push(...refusalsOf(asSvcError(e)).map((refusal) => ({ ...refusal, field: refusal.field ?? field })));
  }
  return {
    spec,
    provider,
    listed,
    answeredAt,
    account,
    refusals,
    candidate: {
      candidate: index,
      provider: spec.provider,
      gpus: spec.gpus,
      region: spec.region ?? null,
      spot: spec.spot ?? "never",
      price_cap: spec.price_cap ?? null,
      offers_total: listed.length,
      price_per_hour_usd: price,
      refusal: refusals[0] ?? null,
      answer_seconds: answeredAt === null ? null : (answeredAt - begun) / 1_000,
      expected_start: parts.startTimes(spec.provider, spec.gpus),
      history: parts.history(spec.provider, spec.gpus),
    },
  };
}

function unknownYet({ provider, gpus }: RunSpec, answer: Promise<unknown>): never {
  answer.catch(() => undefined);
  throw new SvcError("offers_unknown", { provider, gpus, from: null });
}

/** Each account is asked once, however many candidates it has. */
function accountOf(provider: Provider, accounts: Map<string, Promise<Account | null>>): Promise<Account | null> {
  const before = accounts.get(provider.name);
  if (before !== undefined) return before;
  const told = (provider.account?.(AbortSignal.timeout(ASK_MS)) ?? Promise.resolve(null)).catch(() => null);
  accounts.set(provider.name, told);
  return told;
}

/** The candidates that have a machine, in the order in which `place` would take them. */
export function candidateOrder(asked: readonly AskedCandidate[], choose: RunSpec["choose"]): AskedCandidate[] {
  const able = asked.filter(({ candidate }) => candidate.refusal === null && candidate.offers_total > 0);
  if (choose !== "cheapest") return able;
  const price = ({ candidate }: AskedCandidate): number => candidate.price_per_hour_usd ?? Infinity;
  return able.toSorted((a, b) => price(a) - price(b) || 0);
}

export function refusalsOf(error: SvcError): Refusal[] {
  const { code, message, hint } = error;
  if (!error.errors || error.errors.length === 0) return [{ code, message, hint, field: null }];
  return error.errors.map((each) => ({ code, message: each.message, hint, field: each.field }));
}
