// Holds a control plane that one of its callers started: it runs as long as any caller holds it.
//
// A hold is an answer that stays open. When this process ends, for any reason, the system closes it. It never keeps
// this process alive.

import { Agent, request, type IncomingMessage } from "node:http";
import { LATE, SvcError } from "./errors.ts";

const TAKE_MS_MAX = 60_000;
const RELEASE_MS_MAX = 20_000;

/** The last message of a control plane when it has ended: job ids. */
export interface Farewell {
  unfinished: string[];
  kept: string[];
}

export class Hold {
  /** Whether the control plane ends when no caller holds it. */
  readonly endsWithHolders: boolean;
  readonly #id: string;
  readonly #ask: Ask;
  readonly #answer: IncomingMessage;
  readonly #lines: AsyncIterator<string>;

  private constructor(ask: Ask, answer: IncomingMessage, lines: AsyncIterator<string>, said: Taken) {
    this.#ask = ask;
    this.#answer = answer;
    this.#lines = lines;
    this.#id = said.hold;
    this.endsWithHolders = said.ends_with_holders;
  }

  /** Rejects with `shutting_down` if the control plane is ending, with `unreachable` if it does not answer. */
  static async take(baseUrl: string, token: () => string | null): Promise<Hold> {
    const ask = asker(baseUrl, token);
    const answer = await ask("GET", "/v1/hold", null);
    const lines = linesOf(answer);
    const said = await soon<Taken>(lines, TAKE_MS_MAX);
    answer.socket.unref();
    if (typeof said?.hold !== "string") {
      answer.destroy();
      throw SvcError.unreachable(baseUrl, "it refused the hold");
    }
    return new Hold(ask, answer, lines, said);
  }

  /**
   * Releases the hold; null if the control plane does not answer any more. `starter`: this process started the control
   * plane.
   */
  async release(starter: boolean): Promise<{ ending: boolean; holders: number } | null> {
    try {
      const answer = await this.#ask("POST", `/v1/hold/${this.#id}/release`, { starter });
      return await soon(linesOf(answer), RELEASE_MS_MAX);
    } catch {
      return null;
    }
  }

  /** Waits, keeping this process alive, until the control plane has ended; null if that takes longer than `ms`. */
  async farewell(ms: number): Promise<Farewell | null> {
    this.#answer.socket.ref();
    return soon<Farewell>(this.#lines, ms);
  }

  /** Whether the control plane has ended, with or without its last message: another program may have its port by now. */
  get isOver(): boolean {
    return (
      this.#answer.complete ||
      this.#answer.destroyed ||
      this.#answer.socket.readableEnded ||
      this.#answer.socket.destroyed
    );
  }

  close(): void {
    this.#answer.destroy();
  }
}

interface Taken {
  hold: string;
  ends_with_holders: boolean;
}
type Ask = (method: "GET" | "POST", path: string, body: unknown) => Promise<IncomingMessage>;

/** Uses a separate connection for each request; sends the token if one is required. */
function asker(baseUrl: string, token: () => string | null): Ask {
  const agent = new Agent({ keepAlive: false });
  const once = (method: string, path: string, body: unknown, bearer: string | null): Promise<IncomingMessage> =>
    new Promise((done, fail) => {
      const headers = {
        ...(body === null ? {} : { "content-type": "application/json" }),
        ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
      };
      const asked = request(`${baseUrl}${path}`, { method, agent, headers, timeout: TAKE_MS_MAX });
      asked.once("response", done);
      asked.once("timeout", () => asked.destroy(new Error(LATE)));
      asked.on("error", (e) => fail(SvcError.unreachable(baseUrl, e.message, e)));
      asked.end(body === null ? undefined : JSON.stringify(body));
    });
  return async (method, path, body) => {
    let answer = await once(method, path, body, null);
    const bearer = answer.statusCode === 401 ? token() : null;
    if (bearer !== null) {
      answer.resume();
      answer = await once(method, path, body, bearer);
    }
    // From here on the connection may be silent without limit.
    answer.socket.setTimeout(0);
    if (answer.statusCode !== 200)
      throw SvcError.fromAnswer(answer.statusCode ?? 0, await soon(linesOf(answer), 10_000));
    return answer;
  };
}

/** The lines of an answer. A broken connection ends them: the control plane is then gone. */
async function* linesOf(answer: IncomingMessage): AsyncGenerator<string, void, undefined> {
  let rest = "";
  try {
    for await (const part of answer.setEncoding("utf8") as AsyncIterable<string>) {
      const lines = (rest + part).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } catch {
    // The control plane is gone.
  }
  if (rest !== "") yield rest;
}

/** The next line as JSON; null if none arrives in time. */
async function soon<T>(lines: AsyncIterator<string>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((done) => (timer = setTimeout(() => done(null), ms)));
  try {
    const next = await Promise.race([lines.next(), late]);
    if (next === null || next.done === true) return null;
    // The API documents the shape of each of these lines.
    return JSON.parse(next.value) as T;
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}
