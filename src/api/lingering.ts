// Lets a caller read the answer to a request that was refused before all of it had arrived. server.ts and problem.ts call it.
//
// A socket that is closed with unread bytes is reset, and the reset removes an answer that the caller has not read yet: it
// then sees EPIPE in place of the refusal. So the server ends its own side, and discards what still arrives, up to a bound.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Limits } from "./limits.ts";

/** The part of the limits that bounds a refused request. */
export type LingerLimits = Pick<Limits, "lingerBytesMax" | "lingerMs">;

const CHECK_MS = 50;
const lingering = new WeakSet<Socket>();

/** Whether the answer has been sent and the rest of the request is being discarded. */
export const isLingering = (socket: Socket): boolean => lingering.has(socket);

/** Discards the rest of the request whenever its answer is complete before it is. */
export function lingerAfter(request: IncomingMessage, response: ServerResponse, limits: LingerLimits): void {
  const { socket } = request;
  // Node calls this after an answer that closes the connection. On other connections it discards the rest by itself.
  socket.destroySoon = () =>
    request.complete ? Socket.prototype.destroySoon.call(socket) : linger(socket, limits, request);
  response.once("finish", () => {
    if (!request.complete && !lingering.has(socket)) bound(socket, limits, request);
  });
}

/**
 * Ends our side of the connection after what was written, and discards what arrives.
 * @param request null if nothing can tell where it ends: then the caller closes the connection, or the bound does
 */
export function linger(socket: Socket, limits: LingerLimits, request: IncomingMessage | null): void {
  if (lingering.has(socket)) return;
  lingering.add(socket);
  socket.end();
  socket.once("end", () => socket.destroy());
  request?.once("end", () => socket.destroy());
  bound(socket, limits, request);
  socket.resume();
}

/** Destroys the socket if the rest of the request takes too long or is too large. */
function bound(socket: Socket, { lingerBytesMax, lingerMs }: LingerLimits, request: IncomingMessage | null): void {
  const before = socket.bytesRead;
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  const check = setInterval(() => {
    if (socket.bytesRead - before > lingerBytesMax) socket.destroy();
  }, CHECK_MS);
  const over = (): void => {
    clearTimeout(timer);
    clearInterval(check);
  };
  socket.once("close", over);
  request?.once("end", over);
}
