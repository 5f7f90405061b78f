// Makes docs/reference/http-api-routes.md from the OpenAPI document: every route with its input and answers, and every
// shape with its fields.

import { EVERYWHERE, openApiDocument } from "../../src/api/openapi.ts";
import { ROUTES } from "../../src/api/routes/index.ts";

interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  items?: Schema | boolean;
  prefixItems?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
}
interface Operation {
  summary: string;
  description?: string;
  parameters?: { name: string; in: string; required: boolean; description?: string; schema: Schema }[];
  requestBody?: { required: boolean; content: Record<string, { schema: Schema }> };
  responses: Record<string, { description: string; content: Record<string, { schema: Schema }>; "x-codes"?: string[] }>;
}
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

/** Codes that any route may answer with are listed once. */
const often = new Set<string>(EVERYWHERE);

/** @param notice the line that names the page's source. */
export function apiReferencePage(notice: string): string {
  // The document is this project's own, made from its schemas.
  const { paths, components } = openApiDocument(ROUTES, "0") as unknown as Document;
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => routeText(`${method.toUpperCase()} ${path}`, operation)),
  );
  const shapes = Object.entries(components.schemas)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, schema]) => shapeText(name, schema));
  return [
    notice,
    "# API reference",
    "",
    "Every route and every shape, from the schemas that check each request; the same as `/v1/openapi.json` of a control plane. What they",
    "mean together is told in [http-api.md](http-api.md), each code in [errors.md](errors.md). Any route may answer with",
    `${EVERYWHERE.map((code) => `\`${code}\``).join(", ")} beside its own codes.`,
    "",
    "## Routes",
    "",
    ...routes.flat(),
    "## Shapes",
    "",
    ...shapes.flat(),
  ].join("\n");
}

function routeText(title: string, operation: Operation): string[] {
  const lines = [`### \`${title}\``, "", `${operation.summary}. ${operation.description ?? ""}`.trim(), ""];
  const { parameters = [], requestBody } = operation;
  if (parameters.length > 0)
    lines.push(
      "| parameter | in | type | |",
      "| --- | --- | --- | --- |",
      ...parameters.map(({ name, in: where, required, schema, description }) =>
        row([`\`${name}\``, where, typeOf(schema), `${required ? "required. " : ""}${told(schema, description)}`]),
      ),
      "",
    );
  for (const [type, { schema }] of Object.entries(requestBody?.content ?? {}))
    lines.push(`Takes ${typeOf(schema)} as \`${type}\`${requestBody?.required === true ? "" : ", or nothing"}.`, "");
  const codes: string[] = [];
  for (const [status, { description, content, "x-codes": errors }] of Object.entries(operation.responses)) {
    if (errors) {
      codes.push(...errors.filter((code) => !often.has(code)).map((code) => `\`${code}\` (${status})`));
      continue;
    }
    for (const [type, { schema }] of Object.entries(content))
      lines.push(`**${status}** \`${type}\`: ${typeOf(schema)}. ${description}`, "");
  }
  if (codes.length > 0) lines.push(`Refused as ${codes.join(", ")}.`, "");
  return lines;
}

function shapeText(name: string, schema: Schema): string[] {
  const lines = [`### ${name}`, ""];
  if (schema.description !== undefined) lines.push(schema.description, "");
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (schema.properties) lines.push(...fieldsOf(schema), "");
  else if (alternatives?.some((one) => one.properties))
    for (const one of alternatives) lines.push("One of:", "", ...fieldsOf(one), "");
  else lines.push(`${typeOf(schema)}. ${limits(schema)}`.trim(), "");
  return lines;
}

function fieldsOf(schema: Schema): string[] {
  const required = new Set(schema.required);
  return [
    "| field | type | |",
    "| --- | --- | --- |",
    ...Object.entries(schema.properties ?? {}).map(([field, of]) =>
      row([`\`${field}\``, typeOf(of), `${required.has(field) ? "" : "may be left out. "}${told(of, of.description)}`]),
    ),
  ];
}

/** A type in a few words; a named shape becomes a link to it. */
function typeOf(schema: Schema | boolean | undefined): string {
  if (typeof schema !== "object") return "anything";
  if (schema.$ref !== undefined) {
    const name = schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1);
    return `[${name}](#${name.toLowerCase()})`;
  }
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(", ");
  const parts = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (parts) return [...new Set(parts.map(typeOf))].join(" or ");
  if (schema.prefixItems) return `[${schema.prefixItems.map(typeOf).join(", ")}]`;
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  if (schema.type === "object") {
    if (typeof schema.additionalProperties === "object") return `name to ${typeOf(schema.additionalProperties)}`;
    const fields = Object.entries(schema.properties ?? {}).map(([name, of]) => `\`${name}\`: ${typeOf(of)}`);
    return fields.length > 0 ? `{${fields.join(", ")}}` : "object";
  }
  return [schema.type ?? "anything"].flat().join(" or ");
}

const told = (schema: Schema, description: string | undefined): string =>
  [description, limits(schema)].filter((text) => text !== undefined && text !== "").join(" ");

/** Bounds of numbers, texts and lists, and the default value. */
function limits(schema: Schema): string {
  const parts: string[] = [];
  const bound = (words: string, value: number | undefined): void => {
    // Bounds that zod adds by itself do not help a reader.
    if (value !== undefined && Math.abs(value) !== Number.MAX_SAFE_INTEGER) parts.push(`${words} ${value}`);
  };
  bound("at least", schema.minimum);
  bound("more than", schema.exclusiveMinimum);
  bound("at most", schema.maximum);
  bound("less than", schema.exclusiveMaximum);
  if (schema.minLength !== undefined && schema.minLength > 1) parts.push(`at least ${schema.minLength} characters`);
  if (schema.maxLength !== undefined) parts.push(`at most ${schema.maxLength} characters`);
  if (schema.maxItems !== undefined) parts.push(`at most ${schema.maxItems} of them`);
  const text = parts.length === 0 ? "" : `${parts.join(", ").replace(/^./, (first) => first.toUpperCase())}.`;
  return schema.default === undefined ? text : `${text} Default \`${JSON.stringify(schema.default)}\`.`.trim();
}

const row = (cells: string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll(/\s+/g, " ").trim()).join(" | ")} |`;
