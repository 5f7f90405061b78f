import { expect, it } from "vitest";
import { MADE_AGAIN, MADE_BY_SVC, mayBeProtected, NEVER, SECRET_FILES } from "../../src/files/listing/protections.ts";

it("The quick check of a name misses no protected name", () => {
  for (const rule of [...NEVER, ...SECRET_FILES, ...MADE_AGAIN, ...MADE_BY_SVC]) {
    if (rule.startsWith("!")) continue;
    const name = rule.replace(/\/$/, "").replace(/^.*\//, "").replaceAll("*", "x");
    const names =
      rule.startsWith("*.") || rule.startsWith(".*") ? [rule.replace(/\/$/, "").replaceAll("*", "x")] : [name];
    for (const each of names) expect(mayBeProtected(`some/folder/${each}`), rule).toBe(true);
  }
  expect(mayBeProtected("some/folder/train.py")).toBe(false);
});
