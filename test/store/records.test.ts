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
    expect(errorOf("4k2m", "podhost", error)).toEqual(error);
    expect(errorOf("4k2m", "local", error).hint).not.toMatch(/rented machine/);
    expect(errorOf("4k2m", "local", error).hint).toMatch(/^$|[.!]$/);
  }
});

it.each(["local", "podhost"])("The commands of an error name the run, and its other words stay (%s)", (provider) => {
  const hint = "`svc logs JOB --tail 50` shows the last words of JOB.";
  const message = "It lacks a file; `svc code ls JOB --left-out` names it.";
  expect(errorOf("4k2m", provider, { code: "x", message, hint })).toEqual({
    code: "x",
    message: "It lacks a file; `svc code ls 4k2m --left-out` names it.",
    hint: "`svc logs 4k2m --tail 50` shows the last words of JOB.",
  });
});
