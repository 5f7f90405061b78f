// The values of a run's form, and the body of POST /jobs made from them.

import schema from "virtual:submit-schema";
import { splitWords } from "../../../src/domain/shell-words.ts";
import { tagsIn } from "../../../src/schemas/tag-words.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { descriptorOf, runsHere } from "../../../src/providers/descriptors.ts";
import { fieldsOf, fromText, isNumber, toText, type Field } from "./schema-fields.ts";

export type Values = Record<string, string>;

export interface SubmitBodyLike {
  label?: string;
  tags?: string[];
  spec: Record<string, unknown>;
}

export const LABEL: Field = {
  name: "label",
  kind: "text",
  title: "Label",
  description: "A name for people.",
  unit: "",
  required: false,
  choices: [],
  initial: "",
};
export const TAGS: Field = {
  ...LABEL,
  name: "tags",
  title: "Tags",
  description: "Words by which the run is found again, with commas or spaces between them.",
};
export const FIELDS = fieldsOf(schema);

/** Replaces a secret in a record. */
const MASK = "***";

export const initialValues = (query: URLSearchParams): Values =>
  withGpus(
    Object.fromEntries([LABEL, TAGS, ...FIELDS].map((each) => [each.name, query.get(each.name) ?? each.initial])),
  );

const CPU = FIELDS.find((each) => each.name === "gpus")?.initial ?? "";
export const isGpuOnly = (provider: string | undefined): boolean =>
  descriptorOf(provider ?? "")?.capabilities.gpus === "required";

/** Clears the default choice for providers that rent only machines with a GPU. */
export function withGpus(values: Values): Values {
  const { provider, gpus } = values;
  if (isGpuOnly(provider)) return gpus === CPU ? { ...values, gpus: "" } : values;
  return gpus === "" ? { ...values, gpus: CPU } : values;
}

const WORDS = FIELDS.filter(({ kind }) => kind === "words");

/** Errors for fields of words whose text leaves a quote open. The server cannot name them: it gets a text in place of words. */
export const openQuotes = (values: Values): Record<string, string> =>
  Object.fromEntries(
    WORDS.flatMap(({ name }) =>
      splitWords(values[name] ?? "") === null ? [[name, "must not leave a quote open"]] : [],
    ),
  );

/** Errors for fields that need a number and have another text, and those of `openQuotes`. */
export function unreadable(values: Values): Record<string, string> {
  const wrong = FIELDS.filter((each) => each.kind === "number" && isSent(each, values));
  return {
    ...openQuotes(values),
    ...Object.fromEntries(
      wrong.flatMap(({ name }) => (isNumber(values[name] ?? "") ? [] : [[name, "must be a number"]])),
    ),
  };
}

/** Limits for paid machines. */
export const PAID_LIMITS: readonly string[] = ["price_cap", "budget_usd"];
/** Whether the run may rent a machine. They say nothing about this computer: their fields are neither shown nor sent. */
export const mayRent = (values: Values): boolean =>
  !runsHere(values["provider"] ?? "") || (values["candidates"] ?? "") !== "";
const isSent = (each: Field, values: Values): boolean => !PAID_LIMITS.includes(each.name) || mayRent(values);

/** Names of variables whose values are masked in a record: they cannot be read back. */
export function maskedOf(job: JobRecord): string[] {
  const env = job.spec["env"];
  if (typeof env !== "object" || env === null) return [];
  return Object.entries(env).flatMap(([name, value]) => (value === MASK || value === "***redacted***" ? [name] : []));
}

/** The request of an earlier run, without masked secrets. */
export function valuesOf(job: JobRecord): Values {
  const masked = new Set(maskedOf(job));
  const env = Object.fromEntries(
    Object.entries((job.spec["env"] ?? {}) as Record<string, unknown>).filter(([name]) => !masked.has(name)),
  );
  const spec: Record<string, unknown> = { ...job.spec, env };
  return {
    label: job.label ?? "",
    tags: job.tags.join(", "),
    ...Object.fromEntries(
      FIELDS.map((each) => [
        each.name,
        spec[each.name] === undefined ? each.initial : toText(each.kind, spec[each.name]),
      ]),
    ),
  };
}

export function bodyOf(values: Values): SubmitBodyLike {
  const spec: Record<string, unknown> = {};
  for (const each of FIELDS) {
    const text = values[each.name] ?? "";
    if (!isSent(each, values)) continue;
    if (each.name !== "provider" && text === each.initial) continue;
    const value = fromText(each, text);
    if (value !== undefined) spec[each.name] = value;
  }
  spec["entrypoint"] ??= "";
  const label = values["label"]?.trim();
  const tags = tagsIn(values["tags"] ?? "");
  return { ...(label ? { label } : {}), ...(tags.length > 0 ? { tags } : {}), spec };
}
