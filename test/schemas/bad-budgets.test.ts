import { expect, it } from "vitest";
import { RunSpec } from "../../src/schemas/spec.ts";

const spec = { entrypoint: "train.py", provider: "podhost" };

it.each([Number.NaN, Infinity, 0, -1, 1e9, "20", null, [20]])(
  "A budget of %s is refused, with its field",
  (budget_usd) => {
    const parsed = RunSpec.safeParse({ ...spec, budget_usd });
    expect(parsed.error?.issues.map(({ path }) => path.join("."))).toEqual(["budget_usd"]);
  },
);
