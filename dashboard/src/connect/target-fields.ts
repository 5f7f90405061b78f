// The fields of a notification target by its kind, read from the schema, and the body of a request made from their texts.

import schema from "virtual:notify-schema";
import { ALWAYS_SENT, NOTICE_KINDS, TARGET_KINDS, type TargetKind } from "../../../src/schemas/notify-names.ts";
import { fieldsOfObject, fromText, resolved, toText, type Field } from "../form/schema-fields.ts";

/** Drawn by the card itself. */
const OWN_INPUTS: readonly string[] = ["kind", "events"];

const variants = () => {
  const target = resolved(resolved(schema, schema).properties?.["target"] ?? {}, schema);
  return (target.oneOf ?? target.anyOf ?? []).map((variant) => resolved(variant, schema));
};

function fieldsOfKind(kind: TargetKind): Field[] {
  const variant = variants().find(({ properties }) => properties?.["kind"]?.const === kind);
  return fieldsOfObject(variant ?? {}, schema).filter(({ name }) => !OWN_INPUTS.includes(name));
}

const FIELDS = Object.fromEntries(TARGET_KINDS.map((kind) => [kind, fieldsOfKind(kind)])) as Record<
  TargetKind,
  Field[]
>;

export const targetFields = (kind: TargetKind): Field[] => FIELDS[kind];

export const takesSecret = (kind: TargetKind): boolean => FIELDS[kind].some(({ name }) => name === "secret_ref");

/** Fields that few need: behind a fold. */
export const isRare = ({ name }: Field): boolean => ["secret_ref", "allow_private", "user"].includes(name);

export type TargetTexts = Record<string, string>;

/** The reference to a secret that svc keeps itself is left out. */
export const textsOf = (kind: TargetKind, settings: Record<string, unknown>): TargetTexts =>
  Object.fromEntries(
    FIELDS[kind].map((field) => {
      const value = settings[field.name];
      const isKept = field.name === "secret_ref" && typeof value === "string" && value.startsWith("store://notify/");
      return [field.name, value === undefined || isKept ? field.initial : toText(field.kind, value)];
    }),
  );

export const allEvents = (): ReadonlySet<string> => new Set(NOTICE_KINDS);
export const eventsOf = (settings: Record<string, unknown>): ReadonlySet<string> => {
  const { events } = settings;
  return Array.isArray(events) ? new Set([...events.map(String), ...ALWAYS_SENT]) : allEvents();
};

/** @param events without a choice, the target receives everything, also kinds of later versions */
export function targetBody(kind: TargetKind, texts: TargetTexts, events: ReadonlySet<string>): Record<string, unknown> {
  const given = FIELDS[kind].flatMap((field) => {
    const value = fromText(field, texts[field.name] ?? "");
    return value === undefined || value === false ? [] : [[field.name, value] as const];
  });
  const chosen = NOTICE_KINDS.filter((each) => events.has(each));
  return {
    kind,
    ...Object.fromEntries(given),
    ...(chosen.length === NOTICE_KINDS.length ? {} : { events: chosen }),
  };
}
