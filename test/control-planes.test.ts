import { expect, it } from "vitest";
import { countStart } from "./control-planes.ts";

it("A test file may start one control plane for all its tests, and more only with a reason", () => {
  countStart(null);
  countStart("it is killed");
  countStart("it is killed");
  expect(() => countStart(null)).toThrow(/second control plane.*Place\.own/);
});
