// Chooses between the pod host's two APIs. Pods are the same in both: a pod made through one API is found and ended
// through the other.
//
// A1. GraphQL comes first while it answers well.
// A2. REST takes over when GraphQL is not served any more, when GraphQL announces its retirement, or when it limits
//     requests again and again. After limits, GraphQL gets another chance after a while.
// A3. REST must have answered once before a pod is ordered through it. If it does not answer, GraphQL is used as
//     before.
// A4. One failure of REST must not fail a run while GraphQL limits requests: REST is tried again after seconds, then
//     less and less often.

import { SvcError } from "../../errors/index.ts";
import { isRetired, type GraphqlSign } from "./transport.ts";
import type { PodApi } from "./wire.ts";

export type ApiMode = "graphql" | "rest" | "auto";

const LIMITED_IN_A_ROW = 3;
const REST_MS = 10 * 60_000;
const REST_AGAIN_MS = 15_000;

export class ApiChoice {
  readonly #graphql: PodApi;
  readonly #rest: PodApi;
  readonly #mode: () => ApiMode;
  readonly #now: () => number;
  #graphqlIsGone = false;
  #graphqlEnds = false;
  #limited = 0;
  /** GraphQL limits requests: REST is used until then. */
  #limitedUntil = -Infinity;
  #restAnswered = false;
  /** REST did not answer, so many times in a row: it is not used until then. */
  #restFailedUntil = -Infinity;
  #restFailures = 0;

  constructor(apis: { graphql: PodApi; rest: PodApi }, mode: () => ApiMode, now: () => number) {
    this.#graphql = apis.graphql;
    this.#rest = apis.rest;
    this.#mode = mode;
    this.#now = now;
  }

  /** Records the sign that an answer of GraphQL gives about GraphQL itself. */
  heard(sign: GraphqlSign): void {
    if (sign === "ends") this.#graphqlEnds = true;
    this.#limited = sign === "limited" ? this.#limited + 1 : 0;
    if (this.#limited >= LIMITED_IN_A_ROW) this.#limitedUntil = this.#now() + REST_MS;
  }

  /** For idempotent calls. */
  async ask<T>(use: (api: PodApi) => Promise<T>): Promise<T> {
    const mode = this.#mode();
    if (mode === "graphql") return use(this.#graphql);
    if (mode === "rest" || this.#graphqlIsGone) return use(this.#rest);
    if (this.#restIsDue()) {
      const answer = await this.#tryRest(use);
      if (answer !== null) return answer.value;
    }
    try {
      return await use(this.#graphql);
    } catch (e) {
      if (isRetired(e)) {
        const answer = await use(this.#rest);
        this.#graphqlIsGone = true;
        return answer;
      }
      const answer = this.#restIsDue() ? await this.#tryRest(use) : null;
      if (answer === null) throw e;
      return answer.value;
    }
  }

  /** For the end of a pod, which may be requested of both APIs and proves nothing: where GraphQL fails, REST is asked as well. */
  async end<T>(use: (api: PodApi) => Promise<T>): Promise<T> {
    try {
      return await this.ask(use);
    } catch (e) {
      const isInDoubt = e instanceof SvcError && (e.code === "provider_error" || e.code === "provider_unreachable");
      if (!isInDoubt || this.#mode() !== "auto" || this.#graphqlIsGone) throw e;
      return await use(this.#rest).catch(() => Promise.reject(e));
    }
  }

  /** The API that an order goes through. */
  async forOrders(): Promise<PodApi> {
    if (this.onlyRest()) return this.#rest;
    if (this.#mode() === "graphql" || !this.#restIsDue()) return this.#graphql;
    if (!this.#restAnswered) await this.#tryRest((api) => api.list());
    return this.#restAnswered ? this.#rest : this.#graphql;
  }

  /**
   * After GraphQL refused an order because it is not served any more: REST, once its complete list shows no pod with
   * that name. Null if that is unknown, or if the other API may not be used.
   */
  async insteadOfGraphql(name: string): Promise<PodApi | null> {
    if (this.#mode() !== "auto") return null;
    try {
      const { rows, missing } = await this.#rest.list();
      this.#graphqlIsGone = true;
      return missing === null && !rows.some((pod) => pod.name === name) ? this.#rest : null;
    } catch (e) {
      if (e instanceof SvcError) return null;
      throw e;
    }
  }

  onlyRest(): boolean {
    const mode = this.#mode();
    return mode === "rest" || (mode === "auto" && this.#graphqlIsGone);
  }

  #restIsDue(): boolean {
    const now = this.#now();
    return (this.#graphqlEnds || now < this.#limitedUntil) && now >= this.#restFailedUntil;
  }

  async #tryRest<T>(use: (api: PodApi) => Promise<T>): Promise<{ value: T } | null> {
    try {
      const value = await use(this.#rest);
      this.#restAnswered = true;
      return { value };
    } catch (e) {
      // Once it has answered, its errors count.
      if (this.#restAnswered || !(e instanceof SvcError && e.code === "provider_error")) throw e;
      this.#restFailedUntil = this.#now() + Math.min(REST_MS, REST_AGAIN_MS * 2 ** this.#restFailures++);
      return null;
    }
  }
}
