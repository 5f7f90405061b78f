// Each error with which a rented run can end says three things: what happened, what becomes of the machine and the money, what to do.
// The codes come from the sources of the steps, so that a new one is held to it, too.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CATALOGUE, describeError, type ErrorCode } from "../../src/errors/index.ts";

const ROOT = join(import.meta.dirname, "../..");
/** The steps of a rented run, and what they call. */
const SOURCES = [
  "src/steps/**/*.ts",
  "src/ssh/*.ts",
  "src/providers/*.ts",
  "src/providers/{podhost,market,cloudvm}/*.ts",
  "src/machines/*.ts",
  "src/engine/{budgets,graceful-shutdown,effect-runner}.ts",
  "src/notify/watch.ts",
];
/** Thrown elsewhere: by what a step reads, by the engine, or by the request that ended the run. */
const FURTHER: ErrorCode[] = [
  "cancelled_by_user",
  "stopped_by_rule",
  "control_plane_ended",
  "no_progress",
  "needs_attention",
  "internal_error",
  "disk_full",
  "step_timed_out",
  "code_snapshot_damaged",
  "data_changed",
  "secret_not_found",
  "credential_missing",
  "credential_refused",
  "provider_unreachable",
];
/** Thrown in these sources, but never the end of a rented run. */
const NO_ENDS: Record<string, string> = {
  file_not_found: "the collector takes it for a file that the script has deleted",
  invalid_request: "a refusal of the request, before a run exists",
  install_refused: "a refusal of the request; the project is read again from the snapshot that was checked then",
  gpus_unsupported: "found by the first look for offers",
  python_refused: "of a run on this computer",
  start_failed: "of a helper process on this computer",
  shutting_down: "the step continues when svc starts again",
  offers_unknown: "an answer to a plan; a run waits",
};

const codesIn = (path: string): string[] => {
  const text = readFileSync(join(ROOT, path), "utf8");
  return [...text.matchAll(/(?:SvcError|describeError|UnreadableFile)(?:<[^>]*>)?\(\s*"([a-z_]+)"/g)].map(
    ([, code = ""]) => code,
  );
};
const codes = [...new Set([...SOURCES.flatMap((glob) => globSync(glob, { cwd: ROOT }).flatMap(codesIn)), ...FURTHER])]
  .filter((code) => !Object.hasOwn(NO_ENDS, code))
  .toSorted() as ErrorCode[];

/** Every property is its own name in angle quotes. */
const placeholders = (): unknown =>
  new Proxy(
    {},
    {
      get: (_, name) =>
        typeof name === "string"
          ? Object.assign([`‹${name}›`], { toFixed: () => `‹${name}›`, replace: () => name })
          : undefined,
    },
  );

function wordsOf(code: ErrorCode): { message: string; hint: string } {
  const { message, hint } = CATALOGUE[code] as unknown as {
    message: (d: unknown) => unknown;
    hint: string | ((d: unknown) => unknown);
  };
  return {
    message: String(message(placeholders())),
    hint: String(typeof hint === "function" ? hint(placeholders()) : hint),
  };
}

const MONEY =
  /releas|terminates|rented (?:nothing|no machine)|Nothing (?:was|is) rented|costs? nothing|nothing costs|may (?:still )?cost money|is not billed/i;
const DO =
  /\b(?:add|ask|change|check|choose|correct|create|free|give|install|lead|leave|let|load|look|open|raise|report|resubmit|run|see|set|show|start|submit|try|upgrade|use|keep|lists?|shows?|retries|tries|polls|continues)\b/i;

test("the steps of a rented run throw the errors that this file looks at", () => {
  expect(codes.length).toBeGreaterThan(40);
  expect(codes).toEqual(expect.arrayContaining(["ssh_refused", "runner_failed", "machine_lost", "no_offer"]));
  expect(codes.filter((code) => !Object.hasOwn(CATALOGUE, code))).toEqual([]);
  expect(Object.keys(NO_ENDS).filter((code) => !Object.hasOwn(CATALOGUE, code))).toEqual([]);
});

test.each(codes)("%s says what happened, what becomes of the machine and the money, and what to do", (code) => {
  const { message, hint } = wordsOf(code);
  expect(message).toMatch(/^\S.*[.!›]$/su);
  expect(`${message} ${hint}`).toMatch(MONEY);
  expect(hint).toMatch(DO);
});

test.each([
  ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB", true],
  ["RuntimeError: CUDA error: out of memory", true],
  ["jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory", true],
  ["KeyError: 'labels'", false],
  [null, false],
])("The hint after a script that ended with %s advises a smaller batch: %s", (why, advises) => {
  const { hint } = describeError("script_failed", { exit_code: 1, signal: null, who: "The script", why });
  expect(hint.includes("a smaller batch")).toBe(advises);
});

test.each([
  [true, "svc installs none"],
  [false, "add it to requirements.txt or pyproject.toml"],
])("The error of a script that lacks a module says who installs packages (on this computer: %s)", (in_place, words) => {
  const about = { exit_code: 1, signal: null, who: "The script", why: "ModuleNotFoundError: No module named 'einops'" };
  expect(describeError("script_failed", { ...about, in_place }).hint).toContain(words);
  const left_out = '"lib" was left out of the code: it is too large.';
  expect(describeError("script_failed", { ...about, in_place, left_out }).hint).not.toContain(words);
});
