import { expect, it } from "vitest";
import { SvcError } from "../../sdk/index.ts";
import { CATALOGUE } from "../../src/errors/catalogue.ts";

it("an error that came over HTTP ends a command as the same error does here, as far as credentials go", () => {
  for (const [code, { status, exit }] of Object.entries(CATALOGUE)) {
    const { exit: same } = new SvcError({ code, message: "", hint: "", status });
    expect([code, same === 4]).toEqual([code, exit === 4]);
  }
});
