import { expect, it } from "vitest";
import { paramsOf } from "../../src/domain/run-params.ts";

it("names the parameters of a run by its arguments", () => {
  const args = [
    "train.yaml",
    "--lr",
    "0.1",
    "--batch-size=64",
    "model.depth=12",
    "--amp",
    "--shift",
    "-1.5",
    "-b",
    "8",
  ];
  expect(paramsOf(args)).toEqual({
    lr: "0.1",
    "batch-size": "64",
    "model.depth": "12",
    amp: "yes",
    shift: "-1.5",
    b: "8",
  });
});

it("The parser of arguments takes the last of a repeated parameter, keeps what is empty, and ends at a double dash", () => {
  expect(paramsOf(["--lr=1", "--lr=2", "--name=", "--", "--lr=3"])).toEqual({ lr: "2", name: "" });
});

it("The parser of arguments is not confused by hostile or long arguments", () => {
  expect(paramsOf(["--__proto__=x", "--<b>=1", "=", "-", "--", "a=b"])).toEqual(
    Object.fromEntries([["__proto__", "x"]]),
  );
  // The list of runs asks each run for the parameters of the others.
  for (const name of ["constructor", "toString", "__proto__"]) expect(paramsOf(["--lr=1"])[name]).toBeUndefined();
  expect(paramsOf([`--x=${"y".repeat(500)}`])["x"]).toHaveLength(81);
});
