// The OpenAPI 3.1 document, made from the table of routes and the zod schemas. Nothing in it is written twice.

import { z } from "zod";
import { CATALOGUE, type ErrorCode } from "../errors/index.ts";
import { Problem } from "../schemas/job.ts";
import type { Route } from "./route.ts";

type Json = Record<string, unknown>;

/** Errors that any path may answer with. */
export const EVERYWHERE: readonly ErrorCode[] = [
  "host_refused",
  "origin_refused",
  "unauthorized",
  "too_many_connections",
  "internal_error",
];

export function openApiDocument(routes: readonly Route[], version: string): Json {
  const components = new Components();
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    paths[route.path] ??= {};
    (paths[route.path] as Json)[route.method.toLowerCase()] = operation(route, components);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "svc",
      version,
      description:
        "Control plane of GPU training runs. On loopback the owner's own processes need no token; bound to another address every " +
        "request needs one. Errors are RFC 9457 problem details with a stable `code`, a `hint` and, for validation, `errors`.",
    },
    paths,
    components: {
      schemas: components.schemas,
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
    },
    security: [{}, { token: [] }],
  };
}

function operation(route: Route, components: Components): Json {
  const responses: Record<string, Json> = {};
  for (const [status, doc] of Object.entries(route.responses)) {
    const type = doc.contentType ?? "application/json";
    const schema = doc.schema ? components.refTo(doc.schema) : {};
    responses[status] = { description: doc.description, content: { [type]: { schema } } };
  }
  const problem = components.refTo(Problem);
  for (const code of [...route.errors, ...EVERYWHERE]) {
    const status = String(CATALOGUE[code].status);
    const codes = [...((responses[status]?.["x-codes"] as string[] | undefined) ?? []), code];
    responses[status] = {
      description: `One of the codes ${codes.join(", ")}.`,
      content: { "application/problem+json": { schema: problem } },
      "x-codes": codes,
    };
  }
  return {
    operationId: route.id,
    summary: route.summary,
    ...(route.description ? { description: route.description } : {}),
    ...parametersOf(route, components),
    ...(route.body
      ? {
          requestBody: {
            required: !route.body.safeParse(undefined).success,
            content: { "application/json": { schema: components.refTo(route.body) } },
          },
        }
      : {}),
    responses,
  };
}

function parametersOf(route: Route, components: Components): Json {
  const parameters: Json[] = [];
  for (const [, name = ""] of route.path.matchAll(/\{(\w+)\}/g)) {
    parameters.push({ name, in: "path", required: true, schema: { type: "string" } });
  }
  if (route.query) {
    const { properties = {}, required = [] } = components.inline(route.query) as {
      properties?: Record<string, Json>;
      required?: string[];
    };
    for (const [name, schema] of Object.entries(properties)) {
      parameters.push({ name, in: "query", required: required.includes(name), schema });
    }
  }
  for (const [name, description] of Object.entries(route.headers ?? {})) {
    parameters.push({ name, in: "header", required: false, description, schema: { type: "string" } });
  }
  return parameters.length > 0 ? { parameters } : {};
}

/** Collects the schemas that have an id, under that id. */
class Components {
  readonly schemas: Record<string, unknown> = {};

  refTo(schema: z.ZodType): unknown {
    const inline = this.inline(schema);
    const id = inline["id"];
    if (typeof id !== "string") return inline;
    this.#add(id, inline);
    return { $ref: `#/components/schemas/${id}` };
  }

  /** Inlines a schema for input or output: answers may gain fields, so output schemas stay open. */
  inline(schema: z.ZodType): Json {
    const {
      $schema: _,
      $defs = {},
      ...root
    } = z.toJSONSchema(schema, { io: "input" }) as Json & { $defs?: Record<string, Json> };
    for (const [id, definition] of Object.entries($defs)) this.#add(id, rewritten(definition) as Json);
    return rewritten(root) as Json;
  }

  #add(id: string, { id: _, ...schema }: Json): void {
    this.schemas[id] = schema;
  }
}

/** `#/$defs/X` becomes `#/components/schemas/X`. */
function rewritten(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(rewritten);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) =>
      key === "$ref" && typeof part === "string"
        ? [key, part.replace("#/$defs/", "#/components/schemas/")]
        : [key, rewritten(part)],
    ),
  );
}
