import { expect, it } from "vitest";
import { CATALOGUE } from "../../src/errors/catalogue.ts";
import { RELEASED } from "../../src/errors/runs.ts";
import { errorOf } from "../../src/store/records.ts";

it("The error of a local run does not mention a rented machine, and that of a rented one keeps its text", () => {
  const hints = Object.values(CATALOGUE).flatMap(({ hint }) => (typeof hint === "string" ? [hint] : []));
  const about = hints.filter((hint) => hint.includes(RELEASED));
  expect(about.length).toBeGreaterThan(5);
  for (const hint of about) {
    const error = { code: "x", message: "m", hint };
    expect(errorOf("podhost", error)).toEqual(error);
    expect(errorOf("local", error).hint).not.toMatch(/rented machine/);
    expect(errorOf("local", error).hint).toMatch(/^$|[.!]$/);
  }
});
