// Joins searches that wait at the same time into one request: the marketplace allows one search in six seconds, and a plan with
// several candidates wants one for each. The provider calls it for every search.
//
// J1. A joined request finds at least what each of its searches would find. Every caller checks each row again anyway (search.ts, S1).
// J2. A search for further pages stays alone: joined with another one it would begin at the first page again.

import { SharedLook } from "./shared-look.ts";
import { numberOf, textOf, type OfferRow } from "./wire.ts";

export type SearchBody = Record<string, unknown>;

/** The rows that one search asked for. */
export interface Found {
  rows: OfferRow[];
  /** The highest price in dollars per hour of an answer of the maximum length, which may lack further offers; null if it is whole. */
  fullTo: number | null;
  /** The age of an answer that is used again. */
  agoMs: number;
}

type Answer = Omit<Found, "agoMs">;

/** The provider's maximum number of rows in one answer. */
export const LIMIT = 64;
const LOOKS_MAX = 64;
/** Time for the other candidates of a plan to ask. */
const JOIN_MS = 25;

interface Batch {
  bodies: SearchBody[];
  /** The request that serves all of them. */
  joined: SearchBody;
  answer: Promise<OfferRow[]>;
}

export interface JointParts {
  /** Calls `body` at the moment when the request leaves. */
  send: (body: () => SearchBody) => Promise<OfferRow[]>;
  pause: (ms: number) => Promise<void>;
  now: () => number;
}

export class JointSearch {
  readonly #parts: JointParts;
  readonly #looks = new Map<string, SharedLook<Answer>>();
  /** The request that has not left yet. */
  #open: Batch | null = null;

  constructor(parts: JointParts) {
    this.#parts = parts;
  }

  /** An answer at most `ageMs` old, shared by callers that search for the same. */
  async find(body: SearchBody, ageMs: number, signal: AbortSignal): Promise<Found> {
    const key = JSON.stringify(body);
    let look = this.#looks.get(key);
    if (!look) {
      if (this.#looks.size >= LOOKS_MAX) this.#looks.clear();
      look = new SharedLook(() => this.#ask(body), this.#parts.now);
      this.#looks.set(key, look);
    }
    const askedAt = this.#parts.now();
    const { startedAt, value } = await look.get(ageMs, signal);
    return { ...value, agoMs: Math.max(0, askedAt - startedAt) };
  }

  async #ask(body: SearchBody): Promise<Answer> {
    const batch = this.#join(body) ?? this.#begin(body);
    const rows = await batch.answer;
    const prices = rows.map((row) => numberOf(row.dph_total)).filter((price) => price !== null);
    return {
      rows: batch.bodies.length === 1 ? rows : rows.filter((row) => isFor(row, body)),
      fullTo: rows.length < LIMIT || prices.length === 0 ? null : Math.max(...prices),
    };
  }

  #join(body: SearchBody): Batch | null {
    const open = this.#open;
    const joined = open === null ? null : joinedBody(open.joined, body);
    if (open === null || joined === null) return null;
    open.bodies.push(body);
    open.joined = joined;
    return open;
  }

  #begin(body: SearchBody): Batch {
    const { pause, send } = this.#parts;
    const batch: Batch = {
      bodies: [body],
      joined: body,
      answer: pause(JOIN_MS).then(() =>
        send(() => {
          if (this.#open === batch) this.#open = null;
          return batch.joined;
        }),
      ),
    };
    this.#open = batch;
    // A request that fails before it leaves takes no further searches.
    batch.answer.catch(() => {
      if (this.#open === batch) this.#open = null;
    });
    return batch;
  }
}

/** One request body that finds the offers of both searches; null if no such body exists. */
export function joinedBody(a: SearchBody, b: SearchBody): SearchBody | null {
  if (isFurther(a) || isFurther(b)) return null;
  const joined: SearchBody = {};
  for (const column of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const [one, other] = [a[column], b[column]];
    if (JSON.stringify(one) === JSON.stringify(other)) joined[column] = one;
    // Anything but a condition changes what an answer means: the kind, the disk in the price, the order.
    else if (!isCondition(one ?? {}) || !isCondition(other ?? {})) return null;
    else if (one !== undefined && other !== undefined) {
      const either = eitherOf(one, other);
      if (either === null) return null;
      joined[column] = either;
    }
    // A condition of only one of them is left out.
  }
  return joined;
}

const isFurther = ({ dph_total: price }: SearchBody): boolean => isCondition(price) && "gte" in price;

const isCondition = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function eitherOf(one: unknown, other: unknown): Record<string, unknown> | null {
  if (!isCondition(one) || !isCondition(other)) return null;
  const [values, others] = [valuesOf(one), valuesOf(other)];
  if (values !== null && others !== null) return { in: [...new Set([...values, ...others])] };
  for (const [operator, loosest] of [
    ["gte", Math.min],
    ["lte", Math.max],
  ] as const) {
    const [x, y] = [one[operator], other[operator]];
    const isOnly = Object.keys(one).length === 1 && Object.keys(other).length === 1;
    if (isOnly && typeof x === "number" && typeof y === "number") return { [operator]: loosest(x, y) };
  }
  return null;
}

function valuesOf(condition: Record<string, unknown>): unknown[] | null {
  if (Object.keys(condition).length !== 1) return null;
  if (Array.isArray(condition["in"])) return condition["in"];
  return "eq" in condition ? [condition["eq"]] : null;
}

const plain = (name: unknown): string =>
  textOf(name)
    .toLowerCase()
    .replaceAll(/[\s_]+/g, " ");

/** Whether a row of a joined answer is about the machines of this search. */
function isFor(row: OfferRow, body: SearchBody): boolean {
  const names = isCondition(body["gpu_name"]) ? valuesOf(body["gpu_name"]) : null;
  const counts = isCondition(body["num_gpus"]) ? valuesOf(body["num_gpus"]) : null;
  return (
    (names === null || names.some((name) => plain(name) === plain(row.gpu_name))) &&
    (counts === null || counts.includes(numberOf(row.num_gpus)))
  );
}
