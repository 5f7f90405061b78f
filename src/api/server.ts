// The HTTP server: the gate in front, the table of routes behind it, and the dashboard's files.

import websocket from "@fastify/websocket";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { nanoid } from "nanoid";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { isIPv6 } from "node:net";
import type { Logger } from "pino";
import { maskedJson } from "../domain/masked-json.ts";
import type { ControlPlane } from "../engine/control-plane.ts";
import { asSvcError, SvcError, systemCode, messageOf } from "../errors/index.ts";
import { checked, checkedQuery, invalid } from "./field-errors.ts";
import { Gate, isLoopback, requestPath } from "./gate.ts";
import { Holds } from "./holds.ts";
import { LIMITS, type Limits } from "./limits.ts";
import { isLingering, lingerAfter } from "./lingering.ts";
import { ServerMetrics } from "./metrics.ts";
import { openApiDocument } from "./openapi.ts";
import { canTellPeers } from "./peer.ts";
import type { DocsFolders } from "./documentation.ts";
import { portTaken } from "./port-holder.ts";
import { answer, answerSocket, headersOf, PROBLEM_TYPE, securityHeaders, toProblem } from "./problem.ts";
import type { Backend, Call, Route } from "./route.ts";
import { ROUTES } from "./routes/index.ts";
import { loadStatic, serveStatic, type StaticFiles } from "./static-files.ts";
import { parseStrictJson } from "./strict-json.ts";

export interface ServerOptions {
  /** `127.0.0.1` by default. */
  host: string;
  /** 0 takes any free port. */
  port: number;
  /** The default for a missing project_dir. */
  projectDir: string;
  /** The built dashboard; null if it was not built. */
  dashboardDir: string | null;
  /** The documentation, for `/docs`. */
  docs?: DocsFolders;
  version: string;
  /** Required off loopback, and where the system has no /proc/net/tcp. Admits callers whose user is unknown. */
  token?: string;
  log?: (line: string) => void;
  /**
   * The logger for answered requests: level `debug`, or `error` from status 500 on. Without it, requests are not
   * logged.
   */
  logger?: Logger;
  limits?: Partial<Limits>;
  /** For a control plane that ends with its callers. */
  holds?: Holds;
}

export interface RunningServer {
  /** Without a slash at the end; always with a numeric host, so that no other listener on `localhost` is reached. */
  url: string;
  /** The address to open in a browser. If a token is required, it contains a one-time ticket. */
  openUrl: string;
  port: number;
  close(): Promise<void>;
}

const MAX_HEADER_BYTES = 16 * 1024;

/** Resolves once the port answers. Throws `port_taken`, `address_unusable` or `start_failed`; nothing listens then. */
export async function startServer(cp: ControlPlane, options: ServerOptions): Promise<RunningServer> {
  const host = options.host === "localhost" ? "127.0.0.1" : options.host;
  const limits = { ...LIMITS, ...options.limits };
  const tell = options.log ?? (() => undefined);
  const log = (line: string): void => tell(cp.secrets().redactText(line));
  const knowsOwner = isLoopback(host) && canTellPeers();
  if (!knowsOwner && !options.token) {
    const why = isLoopback(host)
      ? "this system does not report which user a connection belongs to"
      : `other computers can reach ${host}`;
    throw new SvcError("start_failed", { why: `${why}, so a token is needed` });
  }
  const gate = new Gate({
    host,
    log,
    connectionsMax: limits.connectionsMax,
    ...(options.token ? { token: options.token } : {}),
  });
  let document: unknown;
  const openapi = (): unknown => (document ??= openApiDocument(ROUTES, options.version));
  const holds = options.holds ?? new Holds(null);
  const { projectDir, version } = options;
  const metrics = new ServerMetrics(cp.reads, version, () => cp.notifications.counts());
  const backend: Backend = { cp, projectDir, version, limits, holds, log, metrics, openapi };

  const app = Fastify({
    logger: false,
    genReqId: () => nanoid(12),
    bodyLimit: limits.bodyBytesMax,
    forceCloseConnections: true,
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_HEADER_BYTES },
    serverFactory: (handler) => guardedServer(gate, limits, handler),
    clientErrorHandler: (error, socket) => unreadable(error, socket, limits),
    frameworkErrors: (error, _request, reply) => sendProblem(reply, asProblemError(error, limits), cp),
  });
  app.setErrorHandler((thrown, request, reply) => {
    const error = asProblemError(thrown, limits);
    if (error.status >= 500)
      log(
        `${request.method} ${requestPath(request.url).slice(0, 200)} ${error.status} ${error.code}: ${error.message}`,
      );
    sendProblem(reply, error, cp);
  });
  acceptOnlyJson(app);
  await app.register(websocket, {
    options: { maxPayload: 64 * 1024, maxFragments: 256, maxBufferedChunks: 4_096, perMessageDeflate: false },
    errorHandler: (_error, socket) => socket.close(1011),
    preClose: function (this: FastifyInstance, done: () => void) {
      for (const client of this.websocketServer.clients) {
        client.close(1001, "the control plane is shutting down");
        setTimeout(() => client.terminate(), 1_000).unref();
      }
      this.websocketServer.close();
      done();
    },
  });
  app.addHook("onResponse", async (request, reply) => observe(metrics, options.logger, request, reply));
  const files = loadStatic(options.dashboardDir, options.docs ?? null);
  app.addHook("onRequest", async (request, reply) => {
    if (request.ws) void reply.headers(securityHeaders(null));
    if (request.is404) return unmatched(files, request, reply);
    if (request.method !== "GET" && request.method !== "HEAD") requireJson(request);
    return undefined;
  });
  for (const route of ROUTES) mount(app, route, backend);

  try {
    await app.listen({ host, port: options.port });
  } catch (cause) {
    await app.close();
    if (systemCode(cause) === "EADDRINUSE") throw await portTaken(host, options.port, cause);
    throw new SvcError("address_unusable", { host, port: options.port, why: messageOf(cause) }, { cause });
  }
  guardUpgrades(app.server, gate, limits);
  metrics.load();
  const { port } = app.server.address() as AddressInfo;
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  const url = `http://${isIPv6(reachable) ? `[${reachable}]` : reachable}:${port}`;
  const openUrl = knowsOwner || gate.ticket === null ? `${url}/` : `${url}/?token=${gate.ticket}`;
  return { url, openUrl, port, close: () => app.close() };
}

/**
 * Counts and logs an answered request. Only the route's pattern is kept: a path may contain a name that the log does
 * not need.
 */
function observe(
  metrics: ServerMetrics,
  logger: Logger | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const { method } = request;
  const route = request.routeOptions.url ?? "unmatched";
  const { statusCode: status, elapsedTime: ms } = reply;
  metrics.observe(method, route, status, ms / 1000);
  if (!logger) return;
  const fields = { request_id: request.id, method, route, status, ms: Math.round(ms * 10) / 10 };
  if (status >= 500) logger.error(fields, "request failed");
  else logger.debug(fields, "request answered");
}

/** A server whose every request and connection passes the gate first. */
function guardedServer(
  gate: Gate,
  limits: Limits,
  handler: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    lingerAfter(request, response, limits);
    const verdict = gate.check(request);
    const headers = securityHeaders(verdict.kind === "refused" ? null : verdict.self);
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (verdict.kind === "refused") return answer(response, verdict.error);
    if (verdict.kind === "admitted") {
      if (request.headers.expect?.toLowerCase() === "100-continue") response.writeContinue();
      return handler(request, response);
    }
    response.writeHead(303, {
      location: verdict.kind === "moved" ? verdict.to : "/",
      "content-length": 0,
      ...(verdict.kind === "exchanged" && verdict.cookie ? { "set-cookie": verdict.cookie } : {}),
    });
    response.end();
  };
  const server = createServer(
    {
      requestTimeout: limits.requestTimeoutMs,
      headersTimeout: limits.headersTimeoutMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.lateCheckMs,
      maxHeaderSize: MAX_HEADER_BYTES,
      // The gate refuses a missing Host, with the same message as every other refusal.
      requireHostHeader: false,
      noDelay: true,
    },
    serve,
  );
  // Without these listeners Node would answer before the gate: 100 to any caller, or 417.
  server.on("checkContinue", serve).on("checkExpectation", serve);
  server.maxConnections = limits.connectionsMax * 2;
  server.prependListener("connection", (socket: Socket) => void gate.accept(socket));
  return server;
}

/** Runs the gate before the listener that routes an upgrade. Only one path allows upgrades. */
function guardUpgrades(server: Server, gate: Gate, limits: Limits): void {
  const listeners = server.listeners("upgrade") as ((request: IncomingMessage, socket: Socket, head: Buffer) => void)[];
  server.removeAllListeners("upgrade");
  server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const verdict = gate.check(request);
    if (verdict.kind === "refused") return answerSocket(socket, verdict.error, limits);
    if (verdict.kind !== "admitted") return answerSocket(socket, new SvcError("upgrade_required", {}), limits);
    const path = requestPath(request.url ?? "/");
    const known = ROUTES.some((route) => route.socket && route.path === path);
    if (!known || request.method !== "GET")
      return answerSocket(socket, new SvcError("not_found", { path: path.slice(0, 200) }), limits);
    if (request.headers.upgrade?.toLowerCase() !== "websocket")
      return answerSocket(socket, new SvcError("upgrade_required", {}), limits);
    for (const listener of listeners) listener(request, socket, head);
  });
}

function mount(app: FastifyInstance, route: Route, backend: Backend): void {
  const url = route.path.replace("/{path}", "/*").replaceAll(/\{(\w+)\}/g, ":$1");
  const callOf = (request: FastifyRequest, reply: FastifyReply): Call => {
    const { "*": path, ...params } = request.params as Record<string, string>;
    return {
      ...backend,
      params: path === undefined ? params : { ...params, path },
      query: route.query ? checkedQuery(route.query, request.query) : {},
      body: route.body ? checkedBody(route.body, request.body) : undefined,
      request,
      reply,
    };
  };
  const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    const result = await route.handle(callOf(request, reply));
    if (result === null) return reply;
    void reply.code(result.status).headers({ "content-type": "application/json; charset=utf-8", ...result.headers });
    return reply.send(maskedJson(result.body, backend.cp.secrets()));
  };
  const { socket: onSocket } = route;
  if (!onSocket) return void app.route({ method: route.method, url, handler });

  // An invalid query gets an ordinary answer, before the protocol changes.
  const calls = new WeakMap<FastifyRequest, Call>();
  app.route({
    method: "GET",
    url,
    preHandler: async (request, reply) => {
      const call = callOf(request, reply);
      await route.handle(call);
      calls.set(request, call);
    },
    handler,
    wsHandler: (socket, request) => {
      const call = calls.get(request);
      if (call) onSocket(call, socket);
    },
  });
}

function checkedBody(schema: NonNullable<Route["body"]>, body: unknown): unknown {
  if (body === undefined && !schema.safeParse(undefined).success)
    throw new SvcError("invalid_json", { reason: "it is empty" });
  return checked(schema, body, "body");
}

function acceptOnlyJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => {
    try {
      done(null, body.length === 0 ? undefined : parseStrictJson(body as Buffer));
    } catch (error) {
      done(error as Error);
    }
  });
}

/**
 * Accepts only unencoded `application/json` in UTF-8: a foreign page's request without preflight is thus refused here
 * too.
 */
function requireJson(request: FastifyRequest): void {
  const { headers } = request;
  const type = headers["content-type"];
  const empty = headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) === 0;
  if (type === undefined ? !empty : !/^application\/json\s*(;\s*charset\s*=\s*(utf-8|"utf-8")\s*)?$/i.test(type)) {
    throw new SvcError("unsupported_media_type", {});
  }
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new SvcError(
      "unsupported_media_type",
      {},
      { errors: [{ field: "Content-Encoding", message: "bodies must be sent uncompressed" }] },
    );
  }
}

const PATTERNS = ROUTES.map(({ method, path }) => ({
  methods: method === "GET" ? ["GET", "HEAD"] : [method],
  pattern: new RegExp(`^${path.replace("/{path}", "/.*").replaceAll(/\{\w+\}/g, "[^/]+")}$`, "s"),
}));

/** Answers another method of a known path, a file of the dashboard, or an unknown path. */
function unmatched(files: StaticFiles, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = requestPath(request.url);
  const allow = new Set(PATTERNS.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods));
  if (allow.size > 0 && !allow.has(request.method))
    throw new SvcError("method_not_allowed", { allow: [...allow].sort().join(", ") });
  if (serveStatic(files, path, request, reply)) return reply;
  throw new SvcError("not_found", { path: path.slice(0, 200) });
}

function asProblemError(thrown: unknown, limits: Limits): SvcError {
  const { code, statusCode, message } = thrown as { code?: string; statusCode?: number; message?: string };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return new SvcError("body_too_large", { max: limits.bodyBytesMax });
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return new SvcError("unsupported_media_type", {});
  if (code === "FST_ERR_BAD_URL") return new SvcError("malformed_request", { why: "its path is not well-formed" });
  if (code === "FST_ERR_CTP_INVALID_CONTENT_LENGTH")
    return invalid([{ field: "Content-Length", message: "does not match the length of the body" }]);
  if (!(thrown instanceof SvcError) && statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new SvcError("malformed_request", { why: message ?? "it was refused" }, { cause: thrown });
  }
  return asSvcError(thrown);
}

function sendProblem(reply: FastifyReply, error: SvcError, cp: ControlPlane): void {
  void reply
    .code(error.status)
    .headers(headersOf(error))
    .type(PROBLEM_TYPE)
    .send(maskedJson(toProblem(error), cp.secrets()));
}

/** Answers bytes that Node's parser rejected, and requests that took too long. */
function unreadable(
  error: NodeJS.ErrnoException,
  socket: Socket & { _httpMessage?: ServerResponse | null },
  limits: Limits,
): void {
  // The answer was sent; more of the same bytes, or the end in the middle of them, changes nothing.
  if (isLingering(socket) && error.code !== "ECONNRESET") return;
  // In the middle of an answer, an error message would not be understood.
  if (error.code === "ECONNRESET" || socket._httpMessage?.headersSent) return void socket.destroy();
  answerSocket(socket, problemOfParser(error.code), limits);
}

function problemOfParser(code: string | undefined): SvcError {
  if (code === "HPE_HEADER_OVERFLOW") return new SvcError("headers_too_large", {});
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new SvcError("request_timeout", {});
  return new SvcError("malformed_request", { why: "it is not HTTP/1.1" });
}
