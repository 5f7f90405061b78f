// Runs the commands that the README tells users to paste.

import { readFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Workplace } from "../cli/serving.ts";

const ROOT = join(import.meta.dirname, "../..");
const blockOf = (language: string): string => {
  const found = [...readFileSync(join(ROOT, "README.md"), "utf8").matchAll(/^```(\w+)\n(.*?)^```/gms)];
  const blocks = found.flatMap(([, of, text]) => (of === language && text !== undefined ? [text] : []));
  expect(blocks, `blocks of ${language}`).toHaveLength(1);
  return blocks[0] ?? "";
};

let at: Workplace;
beforeEach(() => void (at = new Workplace()));
afterEach(() => at.close());

/** Runs a pasted command in the checkout, as the page says. */
function pasted(program: string, args: string[], env: NodeJS.ProcessEnv = {}): string {
  const done = spawnSync(program, args, { cwd: ROOT, env: { ...at.env, ...env }, encoding: "utf8", timeout: 100_000 });
  expect(done.status, done.stderr).toBe(0);
  return done.stdout;
}

test("the run that Python starts trains", () => {
  const said = pasted("python3", ["-c", blockOf("python")], { PYTHONPATH: "python" });
  expect(said).toMatch(/final test accuracy: \d+\.\d+ % after 5 epochs/);
});

test("the run that TypeScript starts succeeds", () => {
  const said = pasted(process.execPath, ["--input-type=module-typescript", "-e", blockOf("ts")]);
  expect(said).toBe("succeeded\n");
});
