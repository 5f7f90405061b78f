// Lists what the connected providers rent out now, with prices. `GET /v1/offers` and `svc offers` call it.
//
// O1. A provider gets at most two requests at a time, and the same request once in five minutes: a page or a person
//     that asks again must not use up the provider's rate limit, which runs need to rent.
// O2. A provider that fails or is slow holds up no other. The answer comes within the time that the caller gives; questions
//     that are still open are counted in it, and their answers serve the next call.

import type { Clock } from "../domain/clock.ts";
import { usdOrNull } from "../domain/money.ts";
import { asSvcError } from "../errors/index.ts";
import { DESCRIPTORS } from "../providers/descriptors.ts";
import type { Offer, Provider } from "../providers/provider.ts";
import type { LiveOffer, Offers, OffersQuery } from "../schemas/offers.ts";
import { RunSpec, type ProviderName } from "../schemas/spec.ts";
import { withinCap } from "../steps/provision.ts";
import { checkCapabilities } from "./check-spec.ts";

const AT_ONCE = 2;
const FRESH_MS = 300_000;
const WITHIN_MS = 15_000;
const ASK_MS = 20_000;
const ANSWERS_MAX = 500;

interface Asked {
  at: number;
  spec: RunSpec;
  answer: Answer;
}

interface Answer {
  offers: Offer[];
  error: Offers["asked"][number]["error"];
  answeredAt: number;
}

export interface OfferParts {
  clock: Clock;
  providers: ReadonlyMap<string, Provider>;
  /** The providers with usable credentials. */
  connected: readonly ProviderName[];
}

/** Remembers answers, and the questions that are being asked. */
export class OfferBook {
  readonly #answers = new Map<string, Answer>();
  readonly #asking = new Map<string, Promise<Answer>>();

  async list(query: OffersQuery, parts: OfferParts): Promise<Offers> {
    const names = parts.connected.filter((name) => {
      const { bills, gpus } = DESCRIPTORS[name].capabilities;
      return bills && gpus !== "none" && (query.provider === undefined || query.provider === name);
    });
    const found: Asked[] = [];
    const questions = names.flatMap((name) => questionsFor(name, query));
    const work = names.map((name) =>
      this.#askAll(
        questions.filter(({ spec }) => spec.provider === name),
        parts,
        (asked) => found.push(asked),
      ),
    );
    const withinMs = (query.within_seconds ?? WITHIN_MS / 1_000) * 1_000;
    const late = Promise.withResolvers<void>();
    const timer = parts.clock.setTimer(withinMs, late.resolve);
    await Promise.race([Promise.all(work), late.promise]);
    timer.cancel();
    const flat = found.toSorted((a, b) => a.at - b.at);
    const now = parts.clock.monotonic();
    const offers = flat.flatMap(({ spec, answer }) =>
      answer.offers.map((offer): LiveOffer => ({
        id: offer.id,
        provider: spec.provider,
        gpus: spec.gpus,
        spot: offer.spot === true,
        price_per_hour_usd: usdOrNull(offer.priceMicro),
        facts: offer.facts ?? {},
        within_cap: withinCap({ ...spec, price_cap: query.price_cap }, offer.priceMicro),
        avoided: offer.avoided ?? null,
        age_seconds: Math.max(0, now - answer.answeredAt) / 1_000,
      })),
    );
    const price = (offer: LiveOffer): number => offer.price_per_hour_usd ?? Infinity;
    return {
      offers: offers.toSorted((a, b) => price(a) - price(b) || 0),
      asked: flat.map(({ spec, answer }) => ({
        provider: spec.provider,
        gpus: spec.gpus,
        offers_total: answer.offers.length,
        error: answer.error,
      })),
      open: questions.length - flat.length,
    };
  }

  async #askAll(questions: Question[], parts: OfferParts, tell: (asked: Asked) => void): Promise<void> {
    const waiting = [...questions];
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
        tell({ ...next, answer: await this.#answer(next.spec, parts) });
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }

  #answer(spec: RunSpec, parts: OfferParts): Promise<Answer> | Answer {
    const key = JSON.stringify([spec.provider, spec.gpus, spec.region ?? null, spec.spot ?? null]);
    const before = this.#answers.get(key);
    if (before !== undefined && parts.clock.monotonic() - before.answeredAt < FRESH_MS) return before;
    const asking = this.#asking.get(key);
    if (asking !== undefined) return asking;
    const answer = ask(spec, parts).then((told) => {
      this.#asking.delete(key);
      if (told.error === null) this.#remember(key, told);
      return told;
    });
    this.#asking.set(key, answer);
    return answer;
  }

  #remember(key: string, answer: Answer): void {
    this.#answers.delete(key);
    this.#answers.set(key, answer);
    const [oldest] = this.#answers.keys();
    if (this.#answers.size > ANSWERS_MAX && oldest !== undefined) this.#answers.delete(oldest);
  }
}

type Question = Omit<Asked, "answer">;

/** One for each GPU request; without one in the query, each model that the provider commonly has. */
function questionsFor(name: ProviderName, { gpus, region, spot }: OffersQuery): Question[] {
  const requests = gpus === undefined ? DESCRIPTORS[name].gpus : [gpus];
  const optional = { ...(region === undefined ? {} : { region }), ...(spot === undefined ? {} : { spot }) };
  return requests.map((request, at) => ({
    at,
    spec: RunSpec.parse({ entrypoint: "none.py", provider: name, gpus: request, ...optional }),
  }));
}

async function ask(spec: RunSpec, { clock, providers }: OfferParts): Promise<Answer> {
  try {
    const provider = providers.get(spec.provider);
    if (provider) checkCapabilities(spec, provider);
    provider?.check?.(spec);
    const offers = await provider?.listOffers(spec, AbortSignal.timeout(ASK_MS));
    return { offers: offers ?? [], error: null, answeredAt: clock.monotonic() };
  } catch (e) {
    const { code, message, hint } = asSvcError(e);
    // An empty list of offers is an answer, too.
    const error = code === "no_offer" ? null : { code, message, hint };
    return { offers: [], error, answeredAt: clock.monotonic() };
  }
}
