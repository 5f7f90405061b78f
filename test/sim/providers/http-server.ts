// The server of every simulated provider: a small, strict JSON server on loopback, which also commits the faults that
// all of them share.
//
// H1. A fault that spoils an answer (page, cut, bomb) spoils it after the request was carried out: the worst case.
// H2. `/_sim/` is the tests' own interface. It needs no key and commits no faults.

import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { during, isFault } from "./faults.ts";
import { costUsd } from "./ledger.ts";
import type { SimMachine, SimParts } from "./parts.ts";

export interface Call {
  method: string;
  path: string;
  /** `:name` parts of the route's path, decoded. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  /** The parsed JSON; undefined if the body is empty. */
  body: unknown;
  text: string;
  /** From `Authorization: Bearer`, else from `?api_key=`. */
  key: string | null;
}

export interface Reply {
  status?: number;
  /** Sent as JSON; `text` is sent raw. */
  json?: unknown;
  text?: string;
  headers?: Record<string, string>;
  /** The connection breaks instead of the answer. */
  lost?: boolean;
}

export interface Route {
  method: string;
  /** `/api/v0/asks/:id/`; a trailing slash counts. */
  path: string;
  run(call: Call): Reply | Promise<Reply>;
}

export interface SimServerOptions {
  parts: SimParts;
  routes: readonly Route[];
  /** 0 or absent: any free port. */
  port?: number;
  /** This provider's answer to too many requests; `nth` counts from 0 and may select one of its forms. */
  rateLimited(call: Call, nth: number): Reply;
  /** Answers below `/metadata/`: each machine's own server, which shares no fault of the API. */
  metadata?(call: Call): Reply;
  badJson?(call: Call): Reply;
  notFound?(call: Call): Reply;
  /** The effects of `/_sim/machines/NAME/vanish` and `…/preempt`; `name` is the machine's name in the fleet. */
  vanish?(name: string): Promise<void>;
  preempt?(name: string): Promise<void>;
  onCall?(line: string): void;
}

export interface SimServer {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

const BODY_BYTES_MAX = 4_000_000;
const HTML =
  "<!DOCTYPE html><html><head><title>Just a moment…</title></head><body><h1>Checking your browser</h1></body></html>";
let bomb: Buffer | undefined;

/** Starts the server on 127.0.0.1. */
export async function startServer(options: SimServerOptions): Promise<SimServer> {
  const { parts } = options;
  const routes = options.routes.map((route) => ({ ...route, pattern: patternOf(route.path) }));
  let limited = 0;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await textOf(request);
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    const bearer = /^Bearer\s+(\S+)\s*$/i.exec(request.headers.authorization ?? "")?.[1];
    const call: Call = {
      method: request.method ?? "GET",
      path: url.pathname,
      params: {},
      query: url.searchParams,
      headers: request.headers,
      body: undefined,
      text,
      key: bearer ?? url.searchParams.get("api_key"),
    };
    if (call.path.startsWith("/_sim/")) return send(response, await control(call, options));
    if (options.metadata && call.path.startsWith("/metadata/")) return send(response, options.metadata(call));
    if (during(parts, "hang")) {
      while (during(parts, "hang") && !request.socket.destroyed) await parts.clock.wait(25);
      return void request.socket.destroy();
    }
    if (parts.faults.take("rate_limited")) return send(response, options.rateLimited(call, limited++));
    const parsed = parse(text);
    call.body = parsed?.value;
    const reply = parsed
      ? await route(call)
      : (options.badJson?.(call) ?? { status: 400, json: { error: "not JSON" } });
    options.onCall?.(`${call.method} ${call.path} ${reply.lost ? "lost" : (reply.status ?? 200)}`);
    if (reply.lost) return void request.socket.destroy();
    if ((reply.status ?? 200) < 300) {
      if (parts.faults.take("html_200"))
        return send(response, { text: HTML, headers: { "content-type": "text/html; charset=utf-8" } });
      if (parts.faults.take("json_bomb")) return sendBomb(response);
      if (parts.faults.take("cut_json")) return sendCut(response, reply);
    }
    send(response, reply);
  }

  async function route(call: Call): Promise<Reply> {
    for (const { method, pattern, run } of routes) {
      const match = method === call.method ? pattern.exec(call.path) : null;
      if (match) return run({ ...call, params: paramsOf(match) });
    }
    return options.notFound?.(call) ?? { status: 404, json: { error: "not found" } };
  }

  const server = createServer({ keepAliveTimeout: 30_000 }, (request, response) => {
    answer(request, response).catch((error: unknown) => {
      // An error in the simulator itself; printed loudly, so that no test takes it for one of the provider's own
      // answers.
      process.stderr.write(`simulator: ${error instanceof Error ? error.stack : String(error)}\n`);
      if (response.headersSent) response.destroy();
      else send(response, { status: 599, text: "the simulator failed" });
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => void server.close(() => resolve()));
    },
  };
}

/** `GET /_sim/ledger`, `GET /_sim/machines`, `GET|POST /_sim/faults`, `POST /_sim/machines/NAME/VERB`. */
async function control(call: Call, { parts, vanish, preempt }: SimServerOptions): Promise<Reply> {
  const { fleet, ledger, faults, clock } = parts;
  const body = call.text === "" ? {} : (JSON.parse(call.text) as { name?: unknown; measure?: unknown });
  if (call.path === "/_sim/ledger") {
    const now = clock.now();
    const lines = ledger.all().map((line) => ({ ...line, costUsd: costUsd(line, now) }));
    return { json: { lines, alive: ledger.alive().length, calls: ledger.calls } };
  }
  if (call.path === "/_sim/machines")
    return {
      json: fleet
        .machines()
        .map(({ name, address, port, privateAddress, hostKey }) => ({ name, address, port, privateAddress, hostKey })),
    };
  if (call.path === "/_sim/faults") {
    if (call.method === "POST") {
      if (typeof body.name !== "string" || !isFault(body.name))
        return { status: 400, json: { error: "no such fault" } };
      if (body.measure === null) faults.clear(body.name);
      else faults.set(body.name, typeof body.measure === "number" ? body.measure : undefined);
    }
    return { json: { ok: true } };
  }
  const [, name, verb] = /^\/_sim\/machines\/([^/]+)\/([a-z-]+)$/.exec(call.path) ?? [];
  const machine = fleet.machines().find((m) => m.name === name);
  const act = verb !== undefined && call.method === "POST" ? verbs({ vanish, preempt })[verb] : undefined;
  if (!machine || !act) return { status: 404, json: { error: "no such machine or verb" } };
  await act(machine, typeof body.measure === "number" ? body.measure : undefined);
  return { json: { ok: true } };
}

type Act = (machine: SimMachine, measure?: number) => Promise<void>;
const verbs = (hooks: {
  vanish: SimServerOptions["vanish"];
  preempt: SimServerOptions["preempt"];
}): Record<string, Act> => ({
  cut: (m) => m.cut(),
  heal: (m) => m.heal(),
  freeze: (m) => m.freeze(),
  thaw: (m) => m.thaw(),
  rate: (m, kbit) => m.rate(kbit ?? 256),
  restart: (m) => m.restart({ wipe: false }),
  wipe: (m) => m.restart({ wipe: true }),
  "fill-disk": (m) => m.fillDisk(),
  "change-host-key": (m) => m.changeHostKey(),
  "refuse-keys": (m) => m.refuseKeys(true),
  "accept-keys": (m) => m.refuseKeys(false),
  destroy: (m) => (hooks.vanish ? hooks.vanish(m.name) : m.destroy()),
  vanish: (m) => (hooks.vanish ? hooks.vanish(m.name) : m.destroy()),
  preempt: (m) => (hooks.preempt ? hooks.preempt(m.name) : m.destroy()),
});

/** Null if the text is not JSON. */
function parse(text: string): { value: unknown } | null {
  try {
    return { value: text === "" ? undefined : (JSON.parse(text) as unknown) };
  } catch {
    return null;
  }
}

function patternOf(path: string): RegExp {
  const parts = path.split("/").map((part) => {
    const [, name, rest = ""] = /^:([a-zA-Z]+)(.*)$/.exec(part) ?? [];
    const literal = (text: string): string => text.replaceAll(/[^a-zA-Z0-9_]/g, String.raw`\$&`);
    return name === undefined ? literal(part) : `(?<${name}>[^/]+?)${literal(rest)}`;
  });
  return new RegExp(`^${parts.join("/")}$`);
}

const paramsOf = (match: RegExpExecArray): Record<string, string> =>
  Object.fromEntries(Object.entries(match.groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]));

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= BODY_BYTES_MAX) chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

const textOfReply = (reply: Reply): string =>
  reply.text ?? (reply.json === undefined ? "" : JSON.stringify(reply.json));

function send(response: ServerResponse, reply: Reply): void {
  const text = textOfReply(reply);
  const type = reply.json === undefined ? "text/plain; charset=utf-8" : "application/json";
  response.writeHead(reply.status ?? 200, {
    ...(text === "" ? {} : { "content-type": type }),
    "content-length": Buffer.byteLength(text),
    ...reply.headers,
  });
  response.end(text);
}

/** With Content-Length, half of a body is a broken connection; in chunks, half of it looks complete. */
function sendCut(response: ServerResponse, reply: Reply): void {
  const text = textOfReply(reply);
  send(response, {
    ...reply,
    text: text.slice(0, Math.ceil(text.length / 2)),
    headers: { "content-type": "application/json" },
  });
}

function sendBomb(response: ServerResponse): void {
  bomb ??= gzipSync(Buffer.concat([Buffer.from('{"data":"'), Buffer.alloc(300_000_000, " "), Buffer.from('"}')]), {
    level: 1,
  });
  response.writeHead(200, {
    "content-type": "application/json",
    "content-encoding": "gzip",
    "content-length": bomb.length,
  });
  response.end(bomb);
}
