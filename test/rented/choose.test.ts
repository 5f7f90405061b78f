// The cells that a seed draws from the fault matrix.

import { expect, test } from "vitest";
import { nameOf, runsOf } from "./cell.ts";
import { chooseCells, chooseMoves, drawCells } from "./choose.ts";
import { endsOfAll, MOVES } from "./faults.ts";
import { MOVE_POINTS } from "./words.ts";

const choice = { seed: 5, kind: "every" } as const;
const whole = chooseCells(choice);

test("a drawing is the same for the same seed, differs for another, and has each cell once before it starts over", () => {
  const cells = drawCells(choice, whole.length, false);
  const drawn = cells.map(nameOf);
  expect(new Set(cells.map(({ nodes: _, ...cell }) => nameOf(cell)))).toEqual(new Set(whole.map(nameOf)));
  expect(drawCells(choice, 50, false).map(nameOf)).toEqual(drawn.slice(0, 50));
  expect(drawCells({ ...choice, seed: 6 }, 50, false).map(nameOf)).not.toEqual(drawn.slice(0, 50));
  expect(drawCells(choice, whole.length + 10, false)).toHaveLength(whole.length + 10);
});

test("several runs in each world add up to the requested number; their nodes share the machines; a notebook has one", () => {
  const drawn = drawCells(choice, 200, true, 6);
  expect(runsOf(drawn.map((cell) => ({ cell })))).toBe(200);
  for (const { provider, runs = 1, nodes = 1 } of drawn.slice(0, -1))
    expect(runs * nodes).toBe(provider === "notebook" ? 1 : 6);
  const gangs = drawn.filter(({ nodes }) => nodes !== undefined);
  expect(new Set(gangs.map(({ nodes }) => nodes))).toEqual(new Set([2, 3]));
  expect(gangs.every(({ provider }) => provider !== "market" && provider !== "notebook")).toBe(true);
});

test("each pair has two faults that the provider knows; success is allowed only if each fault allows it", () => {
  const pairs = drawCells(choice, 300, true);
  for (const { provider, fault, also } of pairs) {
    expect([fault, also]).not.toContain("none");
    expect(also).not.toBe(fault);
    if (provider === "notebook")
      expect(whole.some((cell) => cell.provider === "notebook" && cell.fault === also)).toBe(true);
  }
  expect(endsOfAll("market", ["hang", "key_refused"])).toEqual(["machine_unfit"]);
  expect(endsOfAll("market", ["hang", "slow_link"])).toEqual(["succeeded"]);
  expect(endsOfAll("podhost", ["key_refused", "dead_hosts"])).toEqual(["machine_unfit", "step_timed_out"]);
  expect(endsOfAll("podhost", ["slow_link", "dead_hosts"])).toEqual(["succeeded"]);
});

test("each fault that ends a placement has cells with another placement, and every seed draws a kill between the two", () => {
  const moves = chooseMoves({ seed: 5, kind: "usual" });
  expect(new Set(moves.map(({ fault }) => fault))).toEqual(new Set(Object.keys(MOVES)));
  expect(moves.every(({ moves: follows }) => follows === true)).toBe(true);
  const kills = new Set(moves.flatMap(({ kill }) => (kill === null ? [] : [kill])));
  expect(kills).toEqual(new Set(MOVE_POINTS));
});
