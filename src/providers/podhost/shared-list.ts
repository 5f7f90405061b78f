// One list of pods serves every machine that is looked at within some seconds.

import { orAborted } from "../../domain/or-aborted.ts";
import type { List } from "../paging.ts";
import type { ApiChoice, PodList } from "./api-choice.ts";
import type { Pod } from "./wire.ts";

/** One reading, shared by all who need it. */
interface Asked {
  askedAt: number;
  pods: Promise<PodList>;
  /** A5 of api-choice.ts; null until a proof requires it. */
  inBoth: Promise<List<Pod>> | null;
}

interface Shown extends PodList {
  askedAt: number;
  asked: Asked;
}

export class SharedList {
  readonly #apis: Pick<ApiChoice, "list" | "inBoth">;
  readonly #now: () => number;
  readonly #seen: (pod: Pod) => void;
  #last: Asked | null = null;

  /** @param seen called for every pod that exists according to a list */
  constructor(apis: Pick<ApiChoice, "list" | "inBoth">, now: () => number, seen: (pod: Pod) => void) {
    this.#apis = apis;
    this.#now = now;
    this.#seen = seen;
  }

  /** The next caller gets a new list. */
  forget(): void {
    this.#last = null;
  }

  /** A list that was requested at or after `notBefore`. */
  async since(notBefore: number, signal: AbortSignal): Promise<Shown> {
    const recent = this.#last;
    // A list from the future has an unknown age: the clock was set back.
    const isFresh = recent !== null && recent.askedAt >= notBefore && recent.askedAt <= this.#now();
    const asked = isFresh ? recent : this.#ask();
    signal.throwIfAborted();
    return { ...(await orAborted(asked.pods, signal)), askedAt: asked.askedAt, asked };
  }

  /** The same reading, as far as its absences count. */
  inBoth({ asked }: Shown, signal: AbortSignal): Promise<List<Pod>> {
    asked.inBoth ??= asked.pods.then((list) => this.#apis.inBoth(list)).then((list) => this.#remember(list));
    return orAborted(asked.inBoth, signal);
  }

  /** A new list whose absences count. */
  async proven(signal: AbortSignal): Promise<List<Pod>> {
    return this.inBoth(await this.since(Infinity, signal), signal);
  }

  /** An abort of one waiting caller does not end it. */
  #ask(): Asked {
    const askedAt = this.#now();
    const pods = this.#apis.list().then((list) => this.#remember(list));
    const asked: Asked = { askedAt, pods, inBoth: null };
    this.#last = asked;
    pods.catch(() => {
      if (this.#last === asked) this.#last = null;
    });
    return asked;
  }

  #remember<L extends List<Pod>>(list: L): L {
    for (const pod of list.rows) if (!pod.deleted) this.#seen(pod);
    return list;
  }
}
