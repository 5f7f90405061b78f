// One table declares the API: the parameters and answers of each route. Routing, checking and the OpenAPI document all
// come from it.

import type { FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import { quotedName } from "../domain/quoted-name.ts";
import type { ControlPlane } from "../engine/control-plane.ts";
import { SvcError, type ErrorCode } from "../errors/index.ts";
import type { JobRecord } from "../schemas/job.ts";
import { jobRemoved } from "../store/removal-reads.ts";
import type { Holds } from "./holds.ts";
import type { Limits } from "./limits.ts";
import type { ServerMetrics } from "./metrics.ts";

/** The parts that every handler may use. */
export interface Backend {
  cp: ControlPlane;
  /** The default for a missing project_dir. */
  projectDir: string;
  version: string;
  limits: Limits;
  holds: Holds;
  log: (line: string) => void;
  metrics: ServerMetrics;
  /** The OpenAPI document. */
  openapi: () => unknown;
}

export interface Call<Query = unknown, Body = unknown> extends Backend {
  /** Decoded parts of the path, by the names in braces. */
  params: Record<string, string>;
  query: Query;
  body: Body;
  request: FastifyRequest;
  reply: FastifyReply;
}

export interface Answer {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

export interface ResponseDoc {
  description: string;
  schema?: z.ZodType;
  /** `application/json` by default. */
  contentType?: string;
}

interface RouteOf<Query extends z.ZodType, Body extends z.ZodType> {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** In OpenAPI's form. A last parameter named `path` matches the rest of the path, slashes included. */
  path: string;
  id: string;
  summary: string;
  description?: string;
  query?: Query;
  body?: Body;
  /** Request headers with a meaning, for the document. */
  headers?: Record<string, string>;
  responses: Record<number, ResponseDoc>;
  errors: ErrorCode[];
  /** Resolves with null when the handler has already answered. */
  handle: (call: Call<z.output<Query>, z.output<Body>>) => Answer | null | Promise<Answer | null>;
  /** For a WebSocket path: called with the open socket after `handle` did not throw. */
  socket?: (call: Call<z.output<Query>, z.output<Body>>, socket: import("@fastify/websocket").WebSocket) => void;
}

export type Route = RouteOf<z.ZodType, z.ZodType>;

/** Ties a handler to the types of its schemas. */
export function route<Query extends z.ZodType, Body extends z.ZodType>(definition: RouteOf<Query, Body>): Route {
  // The table is a list of routes with different schemas; each is called only with what its own schemas returned.
  return definition;
}

export const ok = (body: unknown): Answer => ({ status: 200, body });

/** The job that the path names, by its full id. */
export function jobOf(call: Call): JobRecord {
  const id = call.params["id"] ?? "";
  if (id === "") throw new SvcError("not_found", { path: quotedName(call.request.url) });
  const record = /^[a-z0-9][a-z0-9-]{0,63}$/.test(id) ? call.cp.reads.job(id) : null;
  if (!record) throw noJob(call, id);
  return record;
}

/** The codes that `noJob` may answer with. */
export const NO_JOB = ["job_not_found", "job_removed"] as const satisfies ErrorCode[];

/** The error for an unknown or removed job. */
export function noJob(call: Call, id: string): SvcError {
  const at = call.cp.reads.removedAt(id);
  return at === null ? new SvcError("job_not_found", { id: quotedName(id, 100) }) : jobRemoved(id, at);
}
