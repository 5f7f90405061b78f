// Shared parts of the doubles of object stores: the stored objects, a record of requests, and faults to commit.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Held {
  bytes: Buffer;
  metadata: Record<string, string>;
  contentType: string;
  /** Present if it differs from the MD5 of the bytes. */
  etag?: string;
}

/** The fault of a request; each list entry strikes once. */
export type Fault =
  | { do: "cut" }
  | { do: "answer"; status: number; code: string; message?: string }
  /** The request succeeds; the connection is cut instead of the answer. */
  | { do: "lose the answer" }
  | { do: "wrong etag" }
  /** The head of the answer and half of its body come at once, the rest after this time. */
  | { do: "take time"; ms: number }
  /** The store keeps other content than it received, and answers about the stored one. */
  | { do: "spoil" };

export interface Asked {
  /** `PutObject`, `UploadPart`, … */
  what: string;
  key: string;
  bytes: number;
}

export interface Request extends Asked {
  request: IncomingMessage;
  response: ServerResponse;
  body: Buffer;
  url: URL;
  fault: Fault | undefined;
}

export abstract class StoreDouble {
  readonly objects = new Map<string, Held>();
  readonly asked: Asked[] = [];
  /** Called with each request before it takes effect; returns the fault to commit. */
  fault: (asked: Asked) => Fault | undefined = () => undefined;
  /** Called with each request that took effect. */
  done: (asked: Asked) => void = () => {};
  readonly #server: Server = createServer((request, response) => void this.#take(request, response));

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Number of requests of this kind; with `key`, only those for this key. */
  count(what: string, key?: string): number {
    return this.asked.filter((a) => a.what === what && (key === undefined || a.key === key)).length;
  }

  text(key: string): string {
    const held = this.objects.get(key);
    if (!held) throw new Error(`there is no ${key}; there are ${[...this.objects.keys()].join(", ")}`);
    return held.bytes.toString("utf8");
  }

  protected abstract nameOf(request: IncomingMessage, url: URL): { what: string; key: string };
  protected abstract answer(request: Request): Promise<void> | void;
  protected abstract refuse(response: ServerResponse, status: number, code: string, message: string): void;

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    try {
      for await (const piece of request) pieces.push(piece as Buffer);
    } catch {
      return; // the client was killed
    }
    const body = Buffer.concat(pieces);
    const url = new URL(request.url ?? "/", this.url);
    const asked = { ...this.nameOf(request, url), bytes: body.length };
    this.asked.push(asked);
    // Other tests cover tokens.
    const fault = asked.what === "token" ? undefined : this.fault(asked);
    if (fault?.do === "cut") return void request.socket.destroy();
    if (fault?.do === "answer") return this.refuse(response, fault.status, fault.code, fault.message ?? fault.code);
    if (fault?.do === "lose the answer") {
      response.end = (() => {
        request.socket.destroy();
        return response;
      }) as typeof response.end;
    }
    if (fault?.do === "take time") {
      const end = response.end.bind(response);
      response.end = ((bytes: Buffer) => {
        response.write(bytes.subarray(0, bytes.length / 2));
        setTimeout(() => end(bytes.subarray(bytes.length / 2)), fault.ms);
        return response;
      }) as typeof response.end;
    }
    try {
      await this.answer({ ...asked, request, response, body, url, fault });
    } catch (e) {
      this.refuse(response, 500, "InternalError", String(e));
    }
    if (response.statusCode < 400) this.done(asked);
  }
}

/** Commits the same fault at the first `times` requests of a kind. */
export function atFirst(times: number, what: string, fault: Fault): StoreDouble["fault"] {
  let left = times;
  return (asked) => (asked.what === what && left > 0 && left-- > 0 ? fault : undefined);
}
