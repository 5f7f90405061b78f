// Every refusal is one RFC 9457 document, whether Fastify, the gate or the HTTP parser found the fault.

import { STATUS_CODES, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { SvcError } from "../errors/index.ts";
import type { Problem } from "../schemas/job.ts";
import { isLingering, linger, type LingerLimits } from "./lingering.ts";

export const PROBLEM_TYPE = "application/problem+json; charset=utf-8";

/** Sent with every answer. `self` is the caller's own, already checked, name for this server. */
export function securityHeaders(self: string | null): Record<string, string> {
  return {
    "content-security-policy":
      `default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; ` +
      `connect-src 'self'${self ? ` ws://${self}` : ""}; object-src 'none'; base-uri 'none'; ` +
      `form-action 'self'; frame-ancestors 'none'`,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
  };
}

export function toProblem(error: SvcError): Problem {
  return {
    type: `urn:svc:error:${error.code}`,
    title: STATUS_CODES[error.status] ?? "Error",
    status: error.status,
    detail: error.message,
    code: error.code,
    hint: error.hint,
    ...(error.errors ? { errors: error.errors } : {}),
  };
}

/** Headers that belong to a status. */
export function headersOf(error: SvcError): Record<string, string> {
  if (error.code === "unauthorized") return { "www-authenticate": 'Bearer realm="svc"' };
  if (error.code === "too_many_connections") return { connection: "close", "retry-after": "5" };
  if (error.code === "method_not_allowed") return { allow: (error as SvcError<"method_not_allowed">).data.allow };
  if (error.code === "upgrade_required") return { connection: "close", upgrade: "websocket" };
  return {};
}

/** Answers a request that never reaches Fastify. The connection ends with the answer. */
export function answer(response: ServerResponse, error: SvcError): void {
  const body = JSON.stringify(toProblem(error));
  response.writeHead(error.status, {
    "content-type": PROBLEM_TYPE,
    "content-length": Buffer.byteLength(body),
    connection: "close",
    ...headersOf(error),
  });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

/** Answers on a socket without a response object: a refused upgrade, or bytes that are not HTTP. */
export function answerSocket(socket: Socket, error: SvcError, limits: LingerLimits): void {
  if (isLingering(socket)) return;
  if (!socket.writable) return void socket.destroy();
  const body = JSON.stringify(toProblem(error));
  const headers = {
    ...securityHeaders(null),
    "content-type": PROBLEM_TYPE,
    "content-length": String(Buffer.byteLength(body)),
    ...headersOf(error),
    connection: "close",
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.on("error", () => socket.destroy());
  socket.write(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ""}\r\n${head.join("")}\r\n${body}`);
  linger(socket, limits, null);
}
