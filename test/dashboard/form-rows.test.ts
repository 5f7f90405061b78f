// The rows of candidates and of object stores in the form of a new run, without a browser: what they show of a text from a link.

import { createElement, type FunctionComponent } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { CandidatesInput } from "../../dashboard/src/form/candidates-input.tsx";
import type { OneFieldProps } from "../../dashboard/src/form/field-input.tsx";
import { fieldsOf, type JsonSchema } from "../../dashboard/src/form/schema-fields.ts";
import { SinksInput } from "../../dashboard/src/form/sinks-input.tsx";
import { SubmitBody } from "../../src/schemas/spec.ts";

const fields = fieldsOf(z.toJSONSchema(SubmitBody, { io: "input", unrepresentable: "any" }) as JsonSchema);
const shown = (Input: FunctionComponent<OneFieldProps>, name: string, value: string): string => {
  const field = fields.find((each) => each.name === name);
  if (!field) throw new Error(`The form has no field ${name}.`);
  return renderToStaticMarkup(createElement(Input, { field, value, error: undefined, onChange: () => undefined }));
};
const chosen = (html: string): string[] =>
  [...html.matchAll(/<option[^>]* selected=""[^>]*>([^<]*)</g)].map((found) => found[1] ?? "");

describe.each([
  ["candidates", CandidatesInput],
  ["sinks", SinksInput],
] as const)("the field %s", (name, Input) => {
  it.each(["not JSON", '{"provider": "market"}', "[1]", "[[]]", '[{"provider": "market"'])(
    "shows the text %s of a link, which is no list of objects, so that a person can mend it",
    (text) => {
      const html = shown(Input, name, text);
      expect(html).toMatch(/<textarea[^>]*>/);
      expect(html.replaceAll("&quot;", '"')).toContain(text);
    },
  );
  it("shows rows of a list of objects, and none of an empty text", () => {
    expect(shown(Input, name, "[{}]")).toContain("<li");
    expect(shown(Input, name, " ")).not.toMatch(/<li|<textarea/);
  });
});

it("A row shows the choice that is sent, also one that the form does not offer", () => {
  const rows = [{ provider: "local" }, { provider: "market", spot: "always" }, { gpus: "A100" }];
  expect(chosen(shown(CandidatesInput, "candidates", JSON.stringify(rows)))).toEqual([
    "local", "the run’s", "market", "always", "choose", "the run’s",
  ]); // prettier-ignore
  const stores = [{ what: ["logs", "checkpoints"] }, { what: ["logs"] }];
  expect(chosen(shown(SinksInput, "sinks", JSON.stringify(stores)))).toEqual(["logs and checkpoints", "logs"]);
});
