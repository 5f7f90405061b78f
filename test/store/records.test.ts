import { expect, it } from "vitest";
import { CATALOGUE } from "../../src/errors/catalogue.ts";
import { RELEASED } from "../../src/errors/runs.ts";
import { errorOf, ledgerMachineOf, timelineStepOf } from "../../src/store/records.ts";
import type { AttemptRow, EffectRow, MachineRow } from "../../src/store/tables.ts";

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

it("The commands in the error of a step name the run, also in a home from an older version", () => {
  const error = { code: "x", message: "`svc machine JOB` fails.", hint: "See `svc logs JOB`." };
  const effect: EffectRow = {
    id: 1,
    job_id: "4k2m",
    seq: 1,
    step: "sync",
    node: 0,
    state: "failed",
    attempt: 1,
    first_at: 0,
    next_at: null,
  };
  const failed: AttemptRow = {
    effect_id: 1,
    attempt: 1,
    epoch: 1,
    status: "failed",
    started_at: 0,
    ended_at: 1,
    error: JSON.stringify(error),
    detail: null,
  };
  expect(timelineStepOf(effect, failed, 1).error).toEqual({
    code: "x",
    message: "`svc machine 4k2m` fails.",
    hint: "See `svc logs 4k2m`.",
  });
});

it("A machine of the ledger has cost what it had at each of its prices, and an order without a machine nothing", () => {
  const hour = 3_600_000;
  const row = {
    name: "m", resource_id: "1", provider: "market", job_id: null, node: 0, state: "held", address: null, note: null,
    created_at: 0, held_at: 0, released_at: null, price_micro: 4e6, spent_micro: 1e6, priced_at: hour,
  } as unknown as MachineRow; // prettier-ignore
  expect(ledgerMachineOf(row, 2 * hour).cost_usd).toBe(5);
  expect(ledgerMachineOf({ ...row, held_at: null, spent_micro: 0 }, 2 * hour).cost_usd).toBe(0);
  expect(ledgerMachineOf({ ...row, price_micro: null }, 2 * hour).cost_usd).toBeNull();
});
