// The provision step: rents a machine, never two for one node and never one without a record.
//
// R1. The intent is durable before the request leaves. No intent, no request.
// R2. An order whose answer is missing is looked up until it is found or cannot exist any more; only then does the next
//     order follow. A machine that a refused order made anyway is ended first, and never used.
// R3. A kill does not abort a create call: its answer is recorded even when no caller waits for it.
// R4. The next offer is tried at once only if the provider said that it made nothing, and a listing does not contradict
//     it.
// R5. While other nodes' machines already cost money, the search for this node's machine lasts a minute at most.
// R6. A run that asked for no waiting ends about a minute after it first found no machine, even if svc is restarted in
//     that minute. A run with other candidates, or with time to wait, ends its order at once: `place` looks further.
//     If this computer slept in that minute, or in the minute of R5, one more search follows (as in W7 of `place`).
// R7. A price counts three times: the offer's, the created machine's, and (in `stream`) the billed price while it runs.

import { firstChars } from "../domain/terminal-text.ts";
import { SvcError, type ErrorData } from "../errors/index.ts";
import { nodePrefix } from "../domain/machine-names.ts";
import { mayHaveBeenSent } from "../providers/http.ts";
import {
  CANNOT_ASK,
  madeInVain,
  NOTHING_MADE,
  type MachineHandle,
  type Offer,
  type Provider,
  whyNotOthers,
} from "../providers/provider.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { heldEntry } from "./rental/held-entry.ts";
import { ANOTHER_CAME, endTwins, lookUp, type FoundOrder } from "./rental/resolve-lost-order.ts";
import { ownedMachines } from "./rental/list-owned.ts";
import type { LedgerEntry, OrderAtMost, StepPorts } from "./ports.ts";
import { accountFor, assertSameAccount } from "./rental/account-check.ts";
import { release } from "./terminate.ts";
import type { StepContext, StepDefinition, StepDone, StepLater } from "./step.ts";
import { firstContactSeconds } from "../domain/guard-script.ts";
import { givenRate } from "../domain/budget.ts";
import { isWithinCap, microOf, usdOf, usdOrNull } from "../domain/money.ts";
import type { OffersSeen } from "../domain/refusal.ts";

/** An intent older than this is renewed before its request leaves: the process may have slept in between. */
const INTENT_FRESH_MS = 5_000;
/** Delay before svc calls a provider again that cannot be called with the current settings. */
const ASK_AGAIN_MS = 5_000;
/** Maximum of offers in one attempt, tried one after the other while each turns out to be taken. */
const OFFERS_TRIED_MAX = 8;
/** Maximum of offers in the record of an attempt that the cap refused. */
const OFFERS_SEEN_MAX = 6;
/** How long the machines of other nodes are held while this node has none. */
const GANG_WAIT_MS = 60_000;
/** How long to search for a machine after the first answer without one. */
const CAPACITY_WAIT_MS = 60_000;
/** A gap of this length between two searches means that svc did not run meanwhile. */
export const GAP_MS = 5 * 60_000;
/** Maximum of searches whose last instant is kept. */
const SEARCHES_MAX = 10_000;
/** How long to release a machine whose attempt is over. */
const LATE_RELEASE_MS = 60_000;
/** Maximum of different refusals that one error quotes, and of characters of each. */
const REASONS_MAX = 4;
const REASON_CHARACTERS_MAX = 400;

export function provisionStep(ports: StepPorts): StepDefinition {
  /** By effect: when this process last found no machine. */
  const searchedAt = new Map<number, number>();
  const isAfterGap = (effectId: number): boolean => {
    const now = ports.now();
    const last = searchedAt.get(effectId) ?? now;
    searchedAt.delete(effectId);
    searchedAt.set(effectId, now);
    const [oldest] = searchedAt.keys();
    if (searchedAt.size > SEARCHES_MAX && oldest !== undefined) searchedAt.delete(oldest);
    return now - last >= GAP_MS;
  };
  return {
    name: "provision",
    retry: { attemptsMax: 24, delayMsMin: 1_000, delayMsMax: 20_000 },
    attemptMs: 20 * 60_000,
    async run(context: StepContext): Promise<StepDone | StepLater> {
      const { jobId, node, signal } = context;
      const { spec, placement } = ports.facts(jobId);
      const provider = ports.provider(spec.provider);
      for (const entry of ports.ledger.open(jobId, node)) {
        const found = await orAskLater(
          resolveOrder(ports, ports.provider(entry.provider), entry, { placement, signal }),
        );
        if (found.is === "held") return affordably(provider, spec, found.handle);
        if (found.is === "open") return { later: { afterMs: found.afterMs, why: found.why } };
        // The closed order may have cost the whole budget: then the run ends here.
        await ports.budget?.look(jobId);
        signal.throwIfAborted();
      }
      let listed: Offer[] = [];
      try {
        listed = await provider.listOffers(spec, signal);
        const offers = affordable(provider, spec, listed);
        return await orderOneOf(ports, provider, offers, context, spec);
      } catch (e) {
        if (e instanceof SvcError && e.code === "price_cap_exceeded") context.progress(offersSeen(listed));
        if (!isNoOffer(e)) throw e;
        const since = context.firstFailedAt("no_offer");
        const slept = isAfterGap(context.effectId);
        const isOver = !slept && since !== null && ports.now() - since >= CAPACITY_WAIT_MS;
        throw noRoom(ports, context, spec, e, { last: ports.searches(jobId) || isOver, slept });
      }
    },
  };
}

/** Resolves an order that an earlier attempt made. */
async function resolveOrder(
  ports: StepPorts,
  provider: Provider,
  entry: LedgerEntry,
  { placement, signal }: { placement: number; signal: AbortSignal },
): Promise<FoundOrder> {
  // A late answer may have reopened an earlier order: svc ends its machine and never uses it.
  if (entry.state === "releasing" || entry.placement !== placement || entry.superseded === true) {
    const wait = await release(ports, provider, entry, signal);
    return wait === null ? { is: "absent" } : { is: "open", ...wait.later };
  }
  if (entry.handle === null) return lookUp(ports, provider, entry, signal);
  const status = await provider.inspect(entry.handle, signal);
  if (status.phase !== "gone") return { is: "held", handle: entry.handle };
  await assertSameAccount(provider, entry, signal, entry.handle);
  const proof = "the provider says that it does not exist";
  const isClosed = await ports.ledger.released(entry.name, proof, { of: entry.handle.id });
  return isClosed ? { is: "absent" } : ANOTHER_CAME;
}

/**
 * A key that was changed meanwhile proves nothing about a possible machine: the step waits until the key is right
 * again.
 */
async function orAskLater(asked: Promise<FoundOrder>): Promise<FoundOrder> {
  try {
    return await asked;
  } catch (e) {
    if (!(e instanceof SvcError && CANNOT_ASK.has(e.code))) throw e;
    return { is: "open", afterMs: ASK_AGAIN_MS, why: `${e.message} Machines that were ordered before may cost money.` };
  }
}

async function orderOneOf(
  ports: StepPorts,
  provider: Provider,
  offers: Offer[],
  context: StepContext,
  spec: RunSpec,
): Promise<StepDone> {
  const taken: string[] = [];
  const reasons: string[] = [];
  for (const offer of offers.slice(0, OFFERS_TRIED_MAX)) {
    context.signal.throwIfAborted();
    try {
      const handle = await order(ports, provider, offer, context, spec);
      return affordably(provider, spec, handle);
    } catch (e) {
      // A machine that was made anyway is ended before the next order.
      if (!(e instanceof SvcError && e.code === "offer_taken") || madeInVain(e) !== null) throw e;
      taken.push(offer.id);
      reasons.push((e.data as ErrorData<"offer_taken">).why);
      context.progress({ offers_taken: taken, why: told(reasons) });
    }
  }
  throw noOffer(provider, spec, reasons);
}

/** The cheapest offers, for the person whose cap refused them all. */
const offersSeen = (offers: readonly Offer[]): OffersSeen => ({
  offers_total: offers.length,
  offers_seen: offers
    .toSorted((a, b) => (a.priceMicro ?? Infinity) - (b.priceMicro ?? Infinity) || 0)
    .slice(0, OFFERS_SEEN_MAX)
    .map(({ id, facts, priceMicro }) => ({ id, facts: facts ?? {}, price_per_hour_usd: usdOrNull(priceMicro) })),
});

const isNoOffer = (e: unknown): e is SvcError<"no_offer"> => e instanceof SvcError && e.code === "no_offer";

/** Each different reason once, with its count: one line for people. */
function told(reasons: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const reason of reasons) {
    const short = firstChars(reason.trim().replace(/[.\s]+$/, ""), REASON_CHARACTERS_MAX);
    if (short !== "") counts.set(short, (counts.get(short) ?? 0) + 1);
  }
  const all = [...counts].map(([words, count]) => (count === 1 ? words : `${words} (${count} times)`));
  const more = all.length - REASONS_MAX;
  return [...all.slice(0, REASONS_MAX), ...(more > 0 ? [`and ${more} other reasons`] : [])].join("; ");
}

const noOffer = (provider: Provider, { gpus }: RunSpec, reasons: readonly string[]): SvcError<"no_offer"> =>
  new SvcError("no_offer", { provider: provider.name, gpus, why: told(reasons) });

/**
 * The error for a missing machine, worded for several nodes if the run has them.
 * @param search `last`: it is over; `slept`: svc did not run before this answer, so that the machines held get one more.
 */
function noRoom(
  ports: StepPorts,
  { jobId, node }: StepContext,
  spec: RunSpec,
  none: SvcError<"no_offer">,
  { last, slept }: { last: boolean; slept: boolean },
): SvcError {
  const { nodes, provider, gpus } = spec;
  const { why } = none.data;
  const others = Array.from({ length: nodes }, (_, other) => other).filter((other) => other !== node);
  const held = others.flatMap((other) => heldEntry(ports.ledger, jobId, other) ?? []);
  if (held.length === 0) return last ? new SvcError("no_offer", none.data, { retry: "never", cause: none }) : none;
  const about = { provider, gpus, node, nodes, held: held.length, ...(why === undefined ? {} : { why }) };
  const waited = ports.now() - Math.min(...held.map((entry) => entry.createdAt));
  return slept || waited < GANG_WAIT_MS ? new SvcError("no_offer", about) : new SvcError("gang_incomplete", about);
}

const done = (handle: MachineHandle): StepDone => ({
  done: {},
  detail: {
    machine: handle.name,
    ...(handle.priceMicro === null ? {} : { price_per_hour_usd: usdOf(handle.priceMicro) }),
  },
});

/** The machine's own price counts, not the offer's, for a new machine and for one that was found again. */
function affordably(provider: Provider, spec: RunSpec, handle: MachineHandle): StepDone {
  checkCap(provider, spec, handle.priceOffered ? null : handle.priceMicro, "svc releases it");
  return done(handle);
}

/**
 * Two prices that differ by less than this share of the lower one count as equal when offers have a price for traffic.
 */
const NEARLY_ONE_PRICE = 0.01;

/**
 * The amount of traffic is unknown before the run, so a price for traffic cannot be added to the price of an hour: it
 * decides between offers of nearly equal price, and an offer without it comes last among them. `sorted` is cheapest
 * first.
 */
function lessTrafficFirst(sorted: readonly Offer[]): Offer[] {
  const ordered: Offer[] = [];
  for (let from = 0; from < sorted.length;) {
    const limit = (sorted[from]?.priceMicro ?? 0) * (1 + NEARLY_ONE_PRICE);
    let to = from + 1;
    while (to < sorted.length && (sorted[to]?.priceMicro ?? 0) <= limit) to++;
    const alike = sorted.slice(from, to);
    ordered.push(...alike.toSorted((a, b) => (a.trafficMicro ?? Infinity) - (b.trafficMicro ?? Infinity) || 0));
    from = to;
  }
  return ordered;
}

/** The offers that may be rented, in the order of attempts. Throws when there are none, or none within the cap. */
export function affordable(provider: Provider, spec: RunSpec, offers: Offer[]): Offer[] {
  const priced = offers.filter(
    (o) =>
      !provider.info.capabilities.reports_price ||
      (o.priceMicro !== null && Number.isFinite(o.priceMicro) && o.priceMicro >= 0),
  );
  // A stable sort: without prices it keeps the provider's own order.
  const sorted = priced.toSorted((a, b) => (a.priceMicro ?? 0) - (b.priceMicro ?? 0));
  const cheapest = sorted[0];
  if (cheapest === undefined) {
    const odd = offers.length - priced.length;
    const oddWords = odd === 0 ? [] : [`${odd} of its offers have no price that is a number of 0 or more`];
    throw noOffer(provider, spec, [...whyNotOthers(offers), ...oddWords]);
  }
  checkCap(provider, spec, cheapest.priceMicro, "Nothing was rented");
  const ordered = lessTrafficFirst(sorted.filter((offer) => withinCap(spec, offer.priceMicro)));
  return [
    ...ordered.filter(({ avoided }) => avoided === undefined),
    ...ordered.filter(({ avoided }) => avoided !== undefined),
  ];
}

export const withinCap = (spec: RunSpec, priceMicro: number | null): boolean =>
  spec.price_cap === undefined || priceMicro === null || isWithinCap(priceMicro, spec.price_cap);

/** Throws `price_cap_exceeded`, or `price_unknown` if there is a cap but no price to compare. */
export function checkCap(
  provider: Provider,
  spec: RunSpec,
  priceMicro: number | null,
  outcome: "Nothing was rented" | "svc releases it",
): void {
  if (spec.price_cap === undefined) return;
  if (priceMicro === null && provider.info.capabilities.reports_price)
    throw new SvcError("price_unknown", { provider: provider.name, cap: spec.price_cap, outcome });
  if (priceMicro !== null && !withinCap(spec, priceMicro))
    throw new SvcError("price_cap_exceeded", { offered: usdOf(priceMicro), cap: spec.price_cap, outcome });
}

/**
 * The guard of the machine gets the budget's deadlines with the order: svc may never reach it. Decided once for the row and the request: a
 * budget that is changed in between would let the machine cost more than the row counts for it.
 */
function limitOf(ports: StepPorts, jobId: string, spec: RunSpec, { priceMicro }: Offer) {
  // Not the cap: far above the price, it would end the machine before svc has reached it.
  const rate = priceMicro ?? (spec.price_cap === undefined ? null : microOf(spec.price_cap));
  const limit = ports.budget?.limitOfOrder(jobId, rate) ?? null;
  return limit && { ...limit, madeAtMs: ports.now() };
}

/** The most that the machine may cost if the answer to its order is lost. Its guard waits longer for the first contact if it boots later. */
function atMostOf(
  ports: StepPorts,
  provider: Provider,
  spec: RunSpec,
  offer: Offer,
  limit: ReturnType<typeof limitOf>,
): OrderAtMost {
  const cap = spec.price_cap === undefined ? null : microOf(spec.price_cap);
  const ends = [
    ...(limit === null ? [] : [limit.madeAtMs + limit.endSeconds * 1_000]),
    ...(provider.info.capabilities.self_end
      ? [ports.now() + firstContactSeconds(spec.orphan_grace_minutes * 60) * 1_000]
      : []),
  ];
  return {
    rateMicro: offer.priceMicro === null ? (givenRate(spec) ?? cap) : Math.max(offer.priceMicro, cap ?? 0),
    micro: limit?.mostMicro ?? null,
    endsFrom: ends.length === 0 ? null : Math.floor(Math.min(...ends)),
  };
}

async function order(
  ports: StepPorts,
  provider: Provider,
  offer: Offer,
  context: StepContext,
  spec: RunSpec,
): Promise<MachineHandle> {
  const { jobId, node, signal } = context;
  const account = await accountFor(provider, signal);
  const ordinal = ports.ledger.nextOrdinal(jobId, node);
  const name = `${nodePrefix(ports.installationId, jobId, node)}${ordinal}`;
  // The request may leave this long after the stamp, and the provider counts from when it left.
  const horizon = () => ports.now() + INTENT_FRESH_MS + provider.certainty.horizonMs;
  let stampedAt = ports.now();
  const spot = offer.spot === true;
  const limit = limitOf(ports, jobId, spec, offer);
  const atMost = atMostOf(ports, provider, spec, offer, limit);
  const intent = { name, jobId, node, ordinal, provider: provider.name, account, spot, atMost };
  await ports.ledger.intend({ ...intent, horizonAt: horizon() });
  while (ports.now() - stampedAt > INTENT_FRESH_MS) {
    stampedAt = ports.now();
    await ports.ledger.renew(name, horizon());
  }
  if (signal.aborted) {
    await ports.ledger.released(name, "the request was never sent", { of: null });
    throw signal.reason;
  }
  let handle: MachineHandle;
  try {
    handle = await provider.create(offer, { name, jobId, node, spec, limit });
  } catch (e) {
    const spoilt = madeInVain(e);
    if (spoilt !== null) {
      // The order matters: even if the process ends in between, this machine is never used for the run.
      await ports.ledger.releasing(name);
      await ports.ledger.held(name, spoilt);
      throw e;
    }
    if (e instanceof SvcError && NOTHING_MADE.has(e.code)) return refused(ports, provider, name, context, e);
    if (e instanceof SvcError && e.code !== "outcome_unknown" && !mayHaveBeenSent(e)) {
      await ports.ledger.released(
        name,
        "the request never left this computer, or was refused before it was carried out",
        { of: null },
      );
      throw e;
    }
    await ports.ledger.unknown(
      name,
      {
        kind: "order_unknown",
        message:
          "The create call failed or its answer was lost; the machine may exist and cost money until svc has looked it up.",
      },
      // It took longer than any call: the computer slept, and the request may have left only after that.
      ports.now() > stampedAt + provider.certainty.horizonMs ? horizon() : undefined,
    );
    throw e;
  }
  await ports.ledger.held(name, handle);
  await endIfLate(ports, provider, name, context);
  return handle;
}

/**
 * An answer that comes after the node has ordered again names a machine that nothing uses: svc ends it at once, and the sweep if that fails. It
 * may also name one that is proven gone.
 */
async function endIfLate(
  ports: StepPorts,
  provider: Provider,
  name: string,
  { jobId, node, signal }: StepContext,
): Promise<void> {
  const entry = ports.ledger.open(jobId, node).find((each) => each.name === name);
  if (entry !== undefined && entry.superseded !== true) return;
  if (entry !== undefined) await release(ports, provider, entry, AbortSignal.timeout(LATE_RELEASE_MS));
  signal.throwIfAborted();
  throw new SvcError("outcome_unknown", { provider: provider.name, what: `the order of ${name}` });
}

/** The provider says that it made nothing. If a listing shows the machine anyway, the machine counts. */
async function refused(
  ports: StepPorts,
  provider: Provider,
  name: string,
  { jobId, node, signal }: StepContext,
  refusal: SvcError,
): Promise<MachineHandle> {
  if (!CANNOT_ASK.has(refusal.code)) {
    const unsure = () =>
      ports.ledger.unknown(name, {
        kind: "order_unknown",
        message: "The create call was refused, and no complete listing confirms that no machine was made.",
      });
    const prefix = nodePrefix(ports.installationId, jobId, node);
    const { machines, missing } = await ownedMachines(provider, prefix, signal).catch(async (e: unknown) => {
      await unsure();
      throw e;
    });
    const [handle, ...twins] = machines.filter((machine) => machine.name === name);
    if (handle) {
      await ports.ledger.held(name, handle);
      await endTwins(provider, twins, signal);
      return handle;
    }
    if (missing !== null) {
      await unsure();
      throw missing;
    }
  }
  await ports.ledger.released(name, `refused: ${refusal.message}`, { of: null });
  throw refusal;
}
