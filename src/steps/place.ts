// The place step: searches for a candidate whose provider offers a machine. It orders nothing, so nothing is billed while a job waits.
//
// W1. Every look asks all candidates at once. A slow answer does not delay the others: after SLOW_MS a candidate with an offer is
//     taken, in the order of `choose`.
// W2. A candidate whose order was refused a moment ago is passed over for REFUSED_MS: its offers have hardly changed since. Unless the offer
//     had been taken, that time grows: each refused order can cost a created machine or a part of a gang some billed seconds.
// W3. If the search runs out of time, the error names every candidate with its last reason. From then on only a candidate without a
//     refusal in this search may still be chosen: slow orders that are refused in turn must not prolong it.
// W4. Jobs that wait for the same offers share one request to the provider, and its verdict. All searches fall on common instants (BEAT_MS), so
//     that they share commits, too; how many of them fall on one instant is limited by the spread of the waits.
// W5. A candidate two of whose machines were unfit or did not boot comes after all others: the last retries are not spent on it alone.
// W7. A wait whose time is over when svc starts or wakes up (the computer was off, or its clock was set forward) ends only after one more
//     try of every candidate.
// W8. A candidate whose image could not start, there or at another one with the same image, is not asked (candidatesLeft).
// W6. A candidate whose provider says that a field of the spec contradicts it never has a machine. If that is so of all, the search
//     does not last longer than that of a job that may not wait; later than CONTRADICTED_MS it is more likely a fault of their answers.

import { firstChars } from "../domain/terminal-text.ts";
import { asSvcError, hourly, SvcError } from "../errors/index.ts";
import { longDuration } from "../domain/long-duration.ts";
import type { Provider } from "../providers/provider.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { usdOf } from "../domain/money.ts";
import { affordable, GAP_MS } from "./provision.ts";
import type { PlacedCandidate, Search, StepPorts } from "./ports.ts";
import type { StepContext, StepDefinition, StepDone, StepLater } from "./step.ts";

/** Time limit of an answer: SLOW_MS if another candidate has an offer, else ASK_MS. */
const SLOW_MS = 4_000;
const ASK_MS = 20_000;
/** Minimum time of a search, also for a job that may not wait. */
export const SEARCH_MS_MIN = 60_000;
/** Delay between two searches: short at first, because stock comes and goes; later one minute, because a wait may last a week. No longer than
 *  that: the run that has waited longest would have the least chance. */
const LOOK_MS_MIN = 5_000;
const LOOK_MS_MAX = 60_000;
/** Distance of the instants at which jobs look. */
const BEAT_MS = 5_000;
/** Jobs of the same age wait for 0.8 to 1.2 of this delay, each for a share of its own: they must not all order the one machine that appears. */
const SPREAD = 0.4;
const REFUSED_MS = 30_000;
const REFUSED_MS_MAX = 15 * 60_000;
/** Refusals that another user's order causes or ends at any time. */
const OF_STOCK: ReadonlySet<string> = new Set(["no_offer", "offer_taken"]);
/** Jobs that request the same offers within this time receive the same answer. */
const SHARED_MS = 4_000;
const CONTRADICTED_MS = 10 * 60_000;
/** After this many bad machines a candidate comes last. */
const UNFIT_MAX = 2;
/** Maximum length of each candidate's reason in the timeline, in characters. */
const WHY_MAX = 300;

const LATE = "it did not answer in time";

interface Look {
  candidate: PlacedCandidate;
  /** Micro-dollars an hour of the cheapest machine within the cap; null if the provider gives no price. */
  offer: { priceMicro: number | null } | null;
  why: string | null;
  /** Whether the answer names a field of the spec that rules out every machine of the candidate. */
  never: boolean;
}

/** One candidate's result of a search, for the timeline and the record. */
interface Tried {
  candidate: number;
  provider: string;
  gpus: string;
  why: string;
}

type Verdict = Omit<Look, "candidate">;

/** Requests for offers that are under way or were answered within SHARED_MS, with what the answer means. */
class SharedLooks {
  readonly #now: () => number;
  readonly #asked = new Map<string, { at: number; verdict: Promise<Verdict> }>();

  constructor(now: () => number) {
    this.#now = now;
  }

  of(provider: Provider, spec: RunSpec): Promise<Verdict> {
    const at = this.#now();
    for (const [key, { at: then }] of this.#asked) if (!isWithin(SHARED_MS, then, at)) this.#asked.delete(key);
    const { gpus, region, min_vram_gb, disk_gb, nodes, image, spot, price_cap } = spec;
    const key = JSON.stringify([spec.provider, gpus, region, min_vram_gb, disk_gb, nodes, image, spot, price_cap]);
    let asked = this.#asked.get(key);
    if (!asked) this.#asked.set(key, (asked = { at, verdict: verdictOf(provider, spec) }));
    return asked.verdict;
  }
}

async function verdictOf(provider: Provider, spec: RunSpec): Promise<Verdict> {
  try {
    // The request ignores the signal of the step that started it: other steps wait for the same answer.
    const offers = await provider.listOffers(spec, AbortSignal.timeout(ASK_MS), "look");
    const [best] = affordable(provider, spec, offers);
    return { offer: best === undefined ? null : { priceMicro: best.priceMicro }, why: null, never: false };
  } catch (e) {
    // A failure of one provider prevents no request to the others, and the search still ends in time.
    const isLate = e instanceof DOMException && e.name === "TimeoutError";
    const error = asSvcError(e);
    const never =
      !isLate && error.retry === "never" && (error.errors ?? []).some(({ field }) => field.startsWith("spec."));
    return { offer: null, why: isLate ? LATE : error.message, never };
  }
}

const JOBS_MAX = 10_000;

/** By job: the last attempt of this process, and the search that it belongs to. */
class Gaps {
  readonly #looked = new Map<string, { search: number; at: number }>();

  /** Whether svc did not run before this look. The time of an order that was refused is no such gap. */
  isBefore(jobId: string, { since, refusals }: Search, now: number): boolean {
    const last = this.#looked.get(jobId);
    this.#looked.delete(jobId);
    this.#looked.set(jobId, { search: since, at: now });
    const [oldest] = this.#looked.keys();
    if (this.#looked.size > JOBS_MAX && oldest !== undefined) this.#looked.delete(oldest);
    if (last?.search !== since) return true;
    return now - last.at >= GAP_MS && refusals.every(({ at }) => at < last.at);
  }
}

export function placeStep(ports: StepPorts): StepDefinition {
  const shared = new SharedLooks(() => ports.now());
  const gaps = new Gaps();
  return {
    name: "place",
    // Only the deadline of the search ends this step; any other failure is retried.
    retry: { attemptsMax: Number.MAX_SAFE_INTEGER, delayMsMin: 1_000, delayMsMax: 30_000 },
    attemptMs: 2 * ASK_MS,
    async run(context: StepContext): Promise<StepDone | StepLater> {
      const search = ports.search(context.jobId);
      const now = ports.now();
      const until = search.since + Math.max(search.waitMs, SEARCH_MS_MIN);
      const isAfterGap = gaps.isBefore(context.jobId, search, now);
      const refused = new Map(search.refusals.map((refusal) => [refusal.candidate, refusal]));
      const asked = search.candidates.filter(({ index }) => {
        const refusal = refused.get(index);
        return (
          refusal === undefined ||
          (now < until ? !isWithin(passedOverMs(refusal, search.since), refusal.at, now) : isAfterGap)
        );
      });
      const byRank = asked.toSorted((a, b) => Number(isLast(search, a.index)) - Number(isLast(search, b.index)));
      const looks = await lookAll(ports, shared, byRank, search.choose, context.signal);
      const best = chosen(looks, search);
      const tried = search.candidates.flatMap(({ index, spec }): Tried[] => {
        const look = looks.find(({ candidate }) => candidate.index === index);
        if (look !== undefined && look.offer !== null) return [];
        const why = look?.why ?? refused.get(index)?.message ?? LATE;
        return [triedOf({ index, spec }, why)];
      });
      if (best !== null) {
        const { index, spec } = best.candidate;
        const price = best.offer?.priceMicro ?? null;
        // With `in_order`, the candidates after this one did not matter, and may not even have answered.
        const before = new Set(
          byRank
            .slice(
              0,
              byRank.findIndex((one) => one.index === index),
            )
            .map((one) => one.index),
        );
        const passed = tried.filter(
          ({ candidate }) => search.choose !== "in_order" || candidate < index || before.has(candidate),
        );
        return {
          done: { candidate: index },
          detail: {
            provider: spec.provider,
            gpus: spec.gpus,
            ...(price === null ? {} : { price: hourly(usdOf(price)) }),
            ...(passed.length === 0 ? {} : { passed_over: whyOf(passed) }),
          },
        };
      }
      const lastedMs = ports.now() - search.since;
      const all = [...tried, ...(search.ruledOut ?? []).map(({ why, ...candidate }) => triedOf(candidate, why))];
      if (ports.now() >= until) throw timeIsUp(all, until - search.since);
      const isVain = looks.length === search.candidates.length && looks.every(({ never }) => never);
      if (isVain && lastedMs >= SEARCH_MS_MIN && lastedMs < CONTRADICTED_MS) throw timeIsUp(all, lastedMs);
      const nextAt = beatAfter(ports, waitMs(ports.now() - search.since, context.effectId));
      const afterMs = Math.max(0, Math.min(nextAt, until) - ports.now());
      return { later: { afterMs, why: whyOf(all), detail: { tried: all, until: new Date(until).toISOString() } } };
    },
  };
}

/** The delay before the next attempt: a tenth of the search's time so far, within limits, and each job's own share of it. */
function waitMs(lastedMs: number, effectId: number): number {
  const usual = Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, lastedMs / 10));
  // Multiples of the golden ratio are spread evenly, however many there are.
  const share = (effectId * 0.618_034) % 1;
  return Math.max(LOOK_MS_MIN, usual * (1 + SPREAD * (share - 0.5)));
}

/** The common instant that is nearest to the end of this delay. Each installation has instants of its own. */
function beatAfter({ now, installationId }: Pick<StepPorts, "now" | "installationId">, delayMs: number): number {
  const offset = Buffer.from(installationId).reduce((sum, byte) => (sum * 31 + byte) % BEAT_MS, 0);
  return Math.round((now() + delayMs - offset) / BEAT_MS) * BEAT_MS + offset;
}

/** False if `then` is in the future: the clock was set back. */
const isWithin = (ms: number, then: number, now: number): boolean => now >= then && now - then < ms;

/** How long a refused candidate is passed over: longer, the longer the search had lasted. */
const passedOverMs = ({ at, code }: Search["refusals"][number], since: number): number =>
  OF_STOCK.has(code) ? REFUSED_MS : Math.min(REFUSED_MS_MAX, Math.max(REFUSED_MS, (at - since) / 10));

const triedOf = ({ index, spec }: PlacedCandidate, why: string): Tried => ({
  candidate: index,
  provider: spec.provider,
  gpus: spec.gpus,
  why: firstChars(why, WHY_MAX),
});

const whyOf = (tried: readonly Tried[]): string =>
  tried.map(({ provider, gpus, why }) => `${provider} ${gpus}: ${why.replace(/[.\s]+$/, "")}`).join("; ");

const timeIsUp = (tried: readonly Tried[], waitedMs: number): SvcError =>
  new SvcError(
    "no_offer",
    {
      provider: tried[0]?.provider ?? "",
      gpus: tried[0]?.gpus ?? "",
      tried: whyOf(tried),
      waited: longDuration(Math.round(waitedMs / 1_000)),
    },
    { retry: "never" },
  );

/**
 * Asks all candidates. Returns the answers that have come when the choice is decided, or after SLOW_MS; without an
 * offer by then, it waits for the first one up to ASK_MS.
 */
async function lookAll(
  ports: StepPorts,
  shared: SharedLooks,
  candidates: readonly PlacedCandidate[],
  choose: Search["choose"],
  signal: AbortSignal,
): Promise<Look[]> {
  const answered = new Map<number, Look>();
  const answers = candidates.map(async (candidate) => {
    answered.set(candidate.index, await lookAt(ports, shared, candidate));
  });
  const all = Promise.all(answers);
  const until = (isEnough: () => boolean): Promise<unknown> =>
    Promise.race([all, ...answers.map((answer) => answer.then(() => (isEnough() ? undefined : all)))]);
  const hasOffer = (look: Look | undefined): boolean => look !== undefined && look.offer !== null;
  /** With `in_order`, the choice is decided once a candidate has an offer and all candidates before it have none. */
  const isDecided = (): boolean =>
    choose === "in_order" &&
    hasOffer(candidates.map(({ index }) => answered.get(index)).find((look) => look === undefined || hasOffer(look)));
  await within(ports, until(isDecided), SLOW_MS, signal);
  const isAny = (): boolean => [...answered.values()].some(hasOffer);
  if (!isAny() && answered.size < candidates.length) await within(ports, until(isAny), ASK_MS - SLOW_MS, signal);
  return [...answered.values()];
}

async function lookAt(ports: StepPorts, shared: SharedLooks, candidate: PlacedCandidate): Promise<Look> {
  try {
    return { candidate, ...(await shared.of(ports.provider(candidate.spec.provider), candidate.spec)) };
  } catch (e) {
    return { candidate, offer: null, why: asSvcError(e).message, never: false };
  }
}

/** A parameter, so that not every attempt creates an exception with a stack. */
const OVER = "the work has settled";

/** Resolves when `work` has settled, or after `ms`. Throws when the step is cancelled. */
async function within(ports: StepPorts, work: Promise<unknown>, ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const over = new AbortController();
  const stop = AbortSignal.any([signal, over.signal]);
  await Promise.race([work, ports.pause(ms, stop)]).finally(() => over.abort(OVER));
}

const isLast = ({ unfit }: Pick<Search, "unfit">, index: number): boolean =>
  unfit.filter((one) => one === index).length >= UNFIT_MAX;

/** The chosen candidate's look; null if no candidate has an offer. */
function chosen(looks: readonly Look[], search: Search): Look | null {
  const able = looks.filter(({ offer }) => offer !== null).toSorted((a, b) => a.candidate.index - b.candidate.index);
  const price = ({ offer }: Look): number => offer?.priceMicro ?? Infinity;
  // A stable sort, twice: the order of the choice holds within the good candidates, and within the last ones.
  const inOrder = search.choose === "in_order" ? able : able.toSorted((a, b) => price(a) - price(b) || 0);
  const rank = ({ candidate }: Look): number => (isLast(search, candidate.index) ? 1 : 0);
  return inOrder.toSorted((a, b) => rank(a) - rank(b))[0] ?? null;
}
