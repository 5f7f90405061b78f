import { inspect } from "node:util";
import { expect, it } from "vitest";
import { SvcError } from "../../sdk/index.ts";
import { CATALOGUE } from "../../src/errors/catalogue.ts";

it("an error with a machine's text contains no character that a terminal obeys", () => {
  const { message, stack } = new SvcError({ code: "c", message: "it said \u001b]0;x\u0007\u202eno", hint: "" });
  expect(message).toBe("it said  ]0;x no");
  expect(stack).toContain(message);
});

it("an error over HTTP has the same exit code as locally, as far as credentials are concerned", () => {
  for (const [code, { status, exit }] of Object.entries(CATALOGUE)) {
    const { exit: same } = new SvcError({ code, message: "", hint: "", status });
    expect([code, same === 4]).toEqual([code, exit === 4]);
  }
});

it("Node prints an error of the SDK and of the program by its name, even if a bundler renamed the class", () => {
  class _SvcError extends SvcError {}
  expect(SvcError.name).toBe("SvcError");
  expect(inspect(new SvcError({ code: "x", message: "It failed.", hint: "", status: 0 }))).toMatch(
    /^SvcError: It failed\./,
  );
  expect(new _SvcError({ code: "x", message: "", hint: "", status: 0 }).name).toBe("SvcError");
});
