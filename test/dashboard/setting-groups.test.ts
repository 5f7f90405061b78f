import { expect, it } from "vitest";
import { z } from "zod";
import { grouped } from "../../dashboard/src/form/setting-groups.ts";
import { fieldsOf, type JsonSchema } from "../../dashboard/src/form/schema-fields.ts";
import { SubmitBody } from "../../src/schemas/spec.ts";

/** Fields that the form shows outside of the groups. */
const ELSEWHERE = [
  "entrypoint",
  "args",
  "project_dir",
  "provider",
  "gpus",
  "price_cap",
  "budget_usd",
  "candidates",
  "choose",
  "wait_for_capacity_minutes",
  "spot",
  "retry",
  "max_preemptions",
];

it("Each setting of a run has a group in the form, and appears once", () => {
  const schema = z.toJSONSchema(SubmitBody, { io: "input", unrepresentable: "any" }) as JsonSchema;
  const fields = fieldsOf(schema).filter(({ name }) => !ELSEWHERE.includes(name));
  const groups = grouped(fields);
  expect(groups.map(({ title }) => title)).toEqual([
    "Environment",
    "Machine",
    "Limits and rules",
    "Data and checkpoints",
  ]);
  const names = groups.flatMap((group) => group.fields.map(({ name }) => name));
  expect(names.toSorted()).toEqual(fields.map(({ name }) => name).toSorted());
});

it("A field that no group knows comes last instead of being lost", () => {
  const field = {
    name: "brand_new",
    kind: "text",
    title: "",
    description: "",
    unit: "",
    required: false,
    choices: [],
    initial: "",
  } as const;
  expect(grouped([{ ...field, choices: [] }]).map(({ title }) => title)).toEqual(["Other settings"]);
});
