// The gate. Every request of any method passes it before any routing: API, static files, upgrades.
//
// G1. A loopback connection of another user is cut at accept, before a byte of it is parsed.
// G2. `Host` must name this server exactly, port included; that alone stops DNS rebinding.
// G3. `Origin`, when sent, must be the very address in `Host`. Another address of this server is not enough: another
//     program may listen on [::1] while svc listens on 127.0.0.1, and `localhost` is then its page.
// G4. `Sec-Fetch-Site` may not be cross-site or same-site, except to open the empty page shell in a tab.
// G5. The owner's own processes need no token on loopback. A caller of unknown user, and every caller when the server
//     is bound to another address, must present it: as a bearer token, or as the cookie for which a link with a ticket
//     was exchanged. The token itself is good in no address: browsers keep those, and proxies log them.
// G6. Every other request is refused.
// G7. A browser may not use the name `localhost`: another program may listen on [::1], and its page would have our origin. A tab that
//     opens the name is redirected to the numeric address. Other requests of a browser under that name are refused.
// G8. A script for a service worker is refused, so that a worker of an earlier server at this address cannot update itself.

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIPv6, type Socket } from "node:net";
import { hostname } from "node:os";
import { quotedName } from "../domain/quoted-name.ts";
import { SvcError } from "../errors/index.ts";
import { isTicket, LINK_MINUTES } from "../platform/one-time-link.ts";
import { peerUid, withoutMapping } from "./peer.ts";

export type Verdict =
  | { kind: "admitted"; self: string }
  | { kind: "refused"; error: SvcError }
  /** Redirect to the same target under the numeric address (G7). */
  | { kind: "moved"; self: string; to: string }
  /** The one-time link was valid: redirect to the address without it. */
  | { kind: "exchanged"; self: string; cookie: string | null };

export interface GateOptions {
  /** The address that the server is bound to. */
  host: string;
  token?: string;
  connectionsMax: number;
  log: (line: string) => void;
}

const SESSIONS_MAX = 64;

export class Gate {
  readonly #options: GateOptions;
  readonly #loopback: boolean;
  readonly #peers = new WeakMap<object, "owner" | "unknown">();
  readonly #overflow = new WeakSet<object>();
  readonly #sessions = new Set<string>();
  /** Tickets that were exchanged and have not expired. */
  readonly #used = new Set<string>();
  readonly #since = Date.now();
  readonly #uidsTold = new Set<number>();
  #ticket: string | null = null;
  #open = 0;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#loopback = isLoopback(options.host);
    if (options.token !== undefined) this.#ticket = randomBytes(24).toString("base64url");
  }

  /** The ticket for one exchange; null if this gate has no token to exchange it for. */
  get ticket(): string | null {
    return this.#ticket;
  }

  /** Call it for each connection before Node's parser sees it. Returns false if the connection was cut. */
  accept(socket: Socket): boolean {
    const uid = this.#loopback ? uidOf(socket) : null;
    if (uid !== null && uid !== process.getuid?.()) {
      if (!this.#uidsTold.has(uid)) this.#options.log(`cut a connection of another user (uid ${uid})`);
      if (this.#uidsTold.size < 1_000) this.#uidsTold.add(uid);
      // Reset, not closed: a closed connection would stay in the kernel's table for a minute, and each new connection
      // walks that table.
      socket.resetAndDestroy();
      return false;
    }
    this.#peers.set(socket, uid === null ? "unknown" : "owner");
    this.#open += 1;
    if (this.#open > this.#options.connectionsMax) this.#overflow.add(socket);
    socket.once("close", () => (this.#open -= 1));
    return true;
  }

  check(request: IncomingMessage): Verdict {
    if (this.#overflow.has(request.socket)) return refused(new SvcError("too_many_connections", {}));
    const self = this.#self(request);
    if (self === null) return refused(new SvcError("host_refused", { host: short(request.headers.host) }));
    const target = request.url ?? "";
    if (!target.startsWith("/")) return refused(new SvcError("malformed_request", { why: "its target is not a path" }));

    const origins = request.headersDistinct["origin"] ?? [];
    const foreign = origins.find((origin) => origin !== `http://${self}`);
    if (foreign !== undefined) return refused(new SvcError("origin_refused", { origin: short(foreign) }));
    const site = request.headers["sec-fetch-site"];
    if (site !== undefined && site !== "same-origin" && site !== "none" && !opensShell(request, target)) {
      return refused(new SvcError("origin_refused", { origin: "another site" }));
    }

    if (request.headers["service-worker"] !== undefined)
      return refused(new SvcError("origin_refused", { origin: "a service worker" }));
    if (/^localhost(:|$)/.test(self) && isOfBrowser(request)) {
      if (request.method !== "GET" || request.headers["sec-fetch-mode"] !== "navigate" || request.headers.upgrade)
        return refused(new SvcError("host_refused", { host: self }));
      return { kind: "moved", self, to: `http://${numericHost(request.socket)}:${request.socket.localPort}${target}` };
    }

    const link = linkToken(request, target);
    if (link !== null) return this.#exchange(request, self, link);
    return this.#mayEnter(request) ? { kind: "admitted", self } : refused(new SvcError("unauthorized", {}));
  }

  /** The caller's name for this server if it really is this server's, else null. */
  #self(request: IncomingMessage): string | null {
    const [host, ...more] = request.headersDistinct["host"] ?? [];
    if (host === undefined || more.length > 0) return null;
    const { localPort = 0 } = request.socket;
    const names = new Set(["localhost", numericHost(request.socket)]);
    if (!this.#loopback) {
      names.add(hostname().toLowerCase());
      names.add("127.0.0.1");
    }
    const asked = host.toLowerCase();
    for (const name of names) {
      if (asked === `${name}:${localPort}` || (localPort === 80 && asked === name)) return asked;
    }
    return null;
  }

  #mayEnter(request: IncomingMessage): boolean {
    if (this.#peers.get(request.socket) === "owner") return true;
    const { token } = this.#options;
    if (token === undefined) return false;
    const bearer = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
    if (bearer !== undefined) return same(bearer, token);
    const session = cookieOf(request, this.#cookieName(request));
    return session !== null && this.#sessions.has(digest(session).toString("hex"));
  }

  #exchange(request: IncomingMessage, self: string, link: string): Verdict {
    const { token } = this.#options;
    if (token === undefined || !this.#takes(link, token)) {
      // A stale link does not harm a caller who needs no token: it is only removed from the address.
      if (this.#mayEnter(request)) return { kind: "exchanged", self, cookie: null };
      return refused(new SvcError("unauthorized", {}));
    }
    const session = randomBytes(32).toString("base64url");
    if (this.#sessions.size >= SESSIONS_MAX) this.#sessions.delete([...this.#sessions][0] ?? "");
    this.#sessions.add(digest(session).toString("hex"));
    return {
      kind: "exchanged",
      self,
      cookie: `${this.#cookieName(request)}=${session}; Path=/; HttpOnly; SameSite=Strict`,
    };
  }

  /** A ticket counts once: the one that `svc serve` prints, or one of `svc open`. */
  #takes(link: string, token: string): boolean {
    const ticketGood = this.#ticket !== null && same(link, this.#ticket);
    if (ticketGood) this.#ticket = null;
    if (ticketGood) return true;
    // One that is older than this server may have counted before it started.
    if (!isTicket(link, token, { now: Date.now(), since: this.#since }) || this.#used.has(link)) return false;
    if (this.#used.size >= SESSIONS_MAX) return false;
    this.#used.add(link);
    setTimeout(() => this.#used.delete(link), 2 * LINK_MINUTES * 60_000).unref();
    return true;
  }

  /** Cookies know no ports: the name keeps two servers on one computer apart. */
  #cookieName(request: IncomingMessage): string {
    return `svc_session_${request.socket.localPort ?? 0}`;
  }
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

export function requestPath(target: string): string {
  const cut = target.search(/[?#]/);
  return cut < 0 ? target : target.slice(0, cut);
}

const refused = (error: SvcError): Verdict => ({ kind: "refused", error });
/** The numeric address at which the connection arrived, as a URL has it. */
function numericHost({ localAddress = "" }: Socket): string {
  const address = withoutMapping(localAddress);
  return isIPv6(address) ? `[${address}]` : address;
}
const short = (text: string | undefined): string => quotedName(text ?? "", 100) || "(none)";
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
/** Takes the same time wherever the two differ, and for any lengths. */
const same = (given: string, wanted: string): boolean => timingSafeEqual(digest(given), digest(wanted));

function uidOf(socket: Socket): number | null {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  if (!remoteAddress || !remotePort || !localAddress || !localPort) return null;
  return peerUid({ address: remoteAddress, port: remotePort }, { address: localAddress, port: localPort });
}

/** Browsers send these with every request; a program that sends them is treated alike. */
const isOfBrowser = ({ headers }: IncomingMessage): boolean =>
  headers.origin !== undefined || Object.keys(headers).some((name) => name.startsWith("sec-fetch-"));

function opensShell(request: IncomingMessage, target: string): boolean {
  const { "sec-fetch-mode": mode, "sec-fetch-dest": dest } = request.headers;
  return request.method === "GET" && mode === "navigate" && dest === "document" && requestPath(target) === "/";
}

function linkToken(request: IncomingMessage, target: string): string | null {
  if (request.method !== "GET" || !target.startsWith("/?")) return null;
  return new URLSearchParams(target.slice(2)).get("token");
}

function cookieOf(request: IncomingMessage, name: string): string | null {
  for (const pair of (request.headers.cookie ?? "").split(";")) {
    const cut = pair.indexOf("=");
    if (cut > 0 && pair.slice(0, cut).trim() === name) return pair.slice(cut + 1).trim();
  }
  return null;
}
