import { expect, it } from "vitest";
import { faultOf } from "../../scripts/lib/commit-messages.ts";

const BODY = "\n\nA list that was cut off proved machines gone that still ran.\n";

it.each([
  "Follow every page of a list",
  "Bring files whose names are not UTF-8",
  "Pass the grace period to the runner",
])("The message %j is accepted", (subject) => {
  expect(faultOf(subject + BODY)).toBeNull();
});

it.each([
  ["schemas: formatted", /capital letter/],
  ["Fixed the list", /begins with "Fixed"/],
  ["Adding a list", /begins with "Adding"/],
  ["Follows every page", /begins with "Follows"/],
  ["Follow every page.", /period/],
  [`Follow ${"x".repeat(66)}`, /has 73 characters/],
])("The message %j is refused", (subject, why) => {
  expect(faultOf(subject + BODY)).toMatch(why);
});

it("A message without a body, or without a blank line before it, is refused", () => {
  expect(faultOf("Follow every page of a list\n")).toMatch(/no body/);
  expect(faultOf("Follow every page of a list\nbecause it was cut off\n")).toMatch(/blank line/);
});
