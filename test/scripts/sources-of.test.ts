import { stop } from "esbuild";
import { afterAll, expect, test } from "vitest";
import { codeOf } from "../../scripts/lib/sources-of.ts";

afterAll(stop);

const TEXT = `/** Adds. */
export function sum(a: number, b: number): string {
  return \`\${a + b} dollars\`; // in all
}
`;

test("comments, types and blanks do not make another program", async () => {
  const same = "export function sum(a,\n b: any) {\n\n /* as the bill says */ return `${a + b} dollars` }";
  expect(await codeOf(same)).toBe(await codeOf(TEXT));
});

test("a word of a message and a number make another program", async () => {
  for (const [from, to] of [
    ["dollars", "dollar"],
    ["a + b", "a + 2 * b"],
    [" dollars", "  dollars"],
  ] as const)
    // prettier-ignore
    expect(await codeOf(TEXT.replace(from, to))).not.toBe(await codeOf(TEXT));
});
