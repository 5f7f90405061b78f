// Chooses between the pod host's two APIs. Pods are the same in both by its documentation: a pod made through one API is
// found and ended through the other.
//
// A1. GraphQL comes first while it answers well.
// A2. REST takes over when GraphQL says that it is not served any more (410, or words), when GraphQL announces its
//     retirement, when it limits requests again and again, or when a bare page (404 or 405 without JSON) comes in place
//     of its answer. Such a page may be a proxy's: GraphQL counts as not served any more only when it has answered with
//     nothing else for ten minutes. After limits and pages, GraphQL gets another chance after a while.
// A3. REST takes over only after it has read its own list of pods: a catalogue or a "not found" may come from elsewhere.
//     Whatever fails there is asked of GraphQL as before, until GraphQL is not served any more.
// A4. One failure of REST must not fail a run while GraphQL limits requests: REST is tried again after seconds, then
//     less and less often.
// A5. While GraphQL is served, REST alone ends nothing and proves no end: a pod is ended through both, and does not
//     exist only if both lists lack it. While GraphQL limits requests again and again, REST's list counts alone if REST
//     has shown every pod that GraphQL showed. While bare pages come, an absence stays unknown until A2 ends GraphQL.

import { SvcError } from "../../errors/index.ts";
import type { List } from "../paging.ts";
import { saysRetired, type GraphqlSign } from "./transport.ts";
import { podKey, type Pod, type PodApi } from "./wire.ts";

export type ApiMode = "graphql" | "rest" | "auto";

const LIMITED_IN_A_ROW = 3;
const REST_MS = 10 * 60_000;
const REST_AGAIN_MS = 15_000;
/** After a bare page GraphQL is asked again: so much later. */
const PAGE_MS = 60_000;
/** So many bare pages, over so long a time and no further apart, mean that GraphQL is not served any more. */
const PAGES = { least: 3, overMs: 10 * 60_000, apartMs: 15 * 60_000 };

export class ApiChoice {
  readonly #graphql: PodApi;
  readonly #rest: PodApi;
  readonly #mode: () => ApiMode;
  readonly #now: () => number;
  /** It has said so itself. */
  #graphqlIsGone = false;
  /** The bare pages since GraphQL's last other answer. */
  #pages: { count: number; firstAt: number; lastAt: number } | null = null;
  #graphqlEnds = false;
  #limited = 0;
  /** GraphQL limits requests: REST is used until then. */
  #limitedUntil = -Infinity;
  #restAnswered = false;
  /** REST did not answer, so many times in a row: it is not used until then. */
  #restFailedUntil = -Infinity;
  #restFailures = 0;
  /** The pods of GraphQL's last complete list, and those that were shown since. */
  #graphqlShows = new Set<string>();
  readonly #restHasShown = new Set<string>();

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
    const now = this.#now();
    if (this.#limited >= LIMITED_IN_A_ROW) this.#limitedUntil = now + REST_MS;
    const before = this.#pagesUpTo(now);
    this.#pages =
      sign === "page" ? { count: (before?.count ?? 0) + 1, firstAt: before?.firstAt ?? now, lastAt: now } : null;
  }

  /** For idempotent calls other than a list. */
  async ask<T>(use: (api: PodApi) => Promise<T>): Promise<T> {
    return (await this.#choose(use, false)).value;
  }

  async list(): Promise<PodList> {
    const { value, api } = await this.#choose((each) => each.list(), true);
    this.#listed(api, value);
    return { ...value, half: api === this.#rest && !this.#restCounts() };
  }

  /** A5. The list with the pods that only GraphQL shows; what either API leaves out, or denies, is unknown. */
  async inBoth({ rows, missing, half }: PodList): Promise<List<Pod>> {
    if (!half) return { rows, missing };
    try {
      const other = await this.#graphql.list();
      this.#listed(this.#graphql, other);
      const [theirs, ended] = [new Set(other.rows.map(podKey)), rows.filter(({ deleted }) => deleted)];
      const living = rows.filter(({ deleted }) => !deleted);
      const known = new Set(living.map(podKey));
      return {
        rows: [
          ...living,
          ...other.rows.filter((pod) => !known.has(podKey(pod))),
          ...ended.filter((pod) => !theirs.has(podKey(pod))),
        ],
        missing: missing ?? other.missing,
      };
    } catch (e) {
      if (!(e instanceof SvcError)) throw e;
      this.#graphqlIsGone ||= saysRetired(e);
      return { rows, missing: missing ?? (this.#restCounts() || this.#restKnowsAll() ? null : e) };
    }
  }

  /** An API has shown, or made, this pod. */
  shown(api: PodApi, pod: Pod): void {
    (api === this.#rest ? this.#restHasShown : this.#graphqlShows).add(podKey(pod));
  }

  #listed(api: PodApi, { rows, missing }: List<Pod>): void {
    if (api === this.#graphql && missing === null) this.#graphqlShows = new Set();
    for (const pod of rows) this.shown(api, pod);
  }

  #restKnowsAll(): boolean {
    return this.#now() < this.#limitedUntil && [...this.#graphqlShows].every((key) => this.#restHasShown.has(key));
  }

  /** For the end of a pod, which may be requested of both APIs and proves nothing. Whether one of them accepted. */
  async end(use: (api: PodApi) => Promise<boolean>): Promise<boolean> {
    if (this.#mode() === "auto" && !this.#graphqlIsGone && (this.#restIsDue() || this.#pages !== null))
      return this.#endInBoth(use);
    try {
      return await this.ask(use);
    } catch (e) {
      const isInDoubt = e instanceof SvcError && (e.code === "provider_error" || e.code === "provider_unreachable");
      if (!isInDoubt || this.#mode() !== "auto" || this.#graphqlIsGone) throw e;
      return await use(this.#rest).catch(() => Promise.reject(e));
    }
  }

  /** A5. At once: an API that hangs must not use up the time for the other one. */
  async #endInBoth(use: (api: PodApi) => Promise<boolean>): Promise<boolean> {
    const [rest, graphql] = await Promise.allSettled([use(this.#rest), use(this.#graphql)]);
    if (graphql.status === "fulfilled") return graphql.value || (rest.status === "fulfilled" && rest.value);
    const restCounts = saysRetired(graphql.reason) || this.#restCounts();
    if (rest.status === "fulfilled" && (rest.value || restCounts || this.#restKnowsAll())) return rest.value;
    throw restCounts && rest.status === "rejected" ? rest.reason : graphql.reason;
  }

  /** The API that an order goes through. */
  async forOrders(): Promise<PodApi> {
    if (this.#restCounts()) return this.#rest;
    if (this.#mode() === "graphql" || !this.#restIsDue()) return this.#graphql;
    if (!this.#restAnswered) await this.#tryRest((api) => api.list(), true);
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

  /** By the owner's choice, or because GraphQL has said so. */
  onlyRest(): boolean {
    const mode = this.#mode();
    return mode === "rest" || (mode === "auto" && this.#graphqlIsGone);
  }

  /** REST alone proves an absence. */
  #restCounts(): boolean {
    return this.onlyRest() || (this.#mode() === "auto" && this.#onlyPagesCome());
  }

  #onlyPagesCome(): boolean {
    const pages = this.#pagesUpTo(this.#now());
    if (pages === null || !this.#restAnswered) return false;
    return pages.count >= PAGES.least && pages.lastAt - pages.firstAt >= PAGES.overMs;
  }

  /** Null if the last page was long ago: meanwhile GraphQL may have been well. */
  #pagesUpTo(now: number): { count: number; firstAt: number; lastAt: number } | null {
    return this.#pages !== null && now - this.#pages.lastAt <= PAGES.apartMs ? this.#pages : null;
  }

  #pageIsRecent(): boolean {
    return this.#pages !== null && this.#now() < this.#pages.lastAt + PAGE_MS;
  }

  #restIsDue(): boolean {
    const now = this.#now();
    const isHindered = this.#graphqlEnds || now < this.#limitedUntil || this.#pageIsRecent();
    return isHindered && now >= this.#restFailedUntil;
  }

  async #choose<T>(use: (api: PodApi) => Promise<T>, isList: boolean): Promise<{ value: T; api: PodApi }> {
    const by = async (api: PodApi) => ({ value: await use(api), api });
    const mode = this.#mode();
    if (mode === "graphql") return by(this.#graphql);
    if (this.onlyRest() || (this.#onlyPagesCome() && this.#pageIsRecent())) return by(this.#rest);
    const isDue = this.#restIsDue();
    const early = isDue ? await this.#tryRest(use, isList) : null;
    if (early !== null) return early;
    try {
      return await by(this.#graphql);
    } catch (e) {
      if (saysRetired(e)) {
        if (!isList && !this.#restAnswered) await this.#rest.list();
        const answer = await by(this.#rest);
        this.#graphqlIsGone = true;
        return answer;
      }
      if (this.#onlyPagesCome()) return by(this.#rest);
      const late = !isDue && this.#restIsDue() ? await this.#tryRest(use, isList) : null;
      if (late === null) throw e;
      return late;
    }
  }

  /** A3. Null if REST fails. */
  async #tryRest<T>(use: (api: PodApi) => Promise<T>, isList: boolean): Promise<{ value: T; api: PodApi } | null> {
    const hadAnswered = this.#restAnswered;
    try {
      if (!isList && !hadAnswered) await this.#rest.list();
      const value = await use(this.#rest);
      this.#restAnswered = true;
      this.#restFailures = 0;
      return { value, api: this.#rest };
    } catch (e) {
      if (!(e instanceof SvcError)) throw e;
      this.#restAnswered = false;
      if (!hadAnswered)
        this.#restFailedUntil = this.#now() + Math.min(REST_MS, REST_AGAIN_MS * 2 ** this.#restFailures++);
      return null;
    }
  }
}

/** A list of pods. */
export interface PodList extends List<Pod> {
  /** It is REST's, while GraphQL is still served: it proves no absence (A5). */
  half: boolean;
}
