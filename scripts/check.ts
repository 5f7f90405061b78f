// Runs all static checks, even if one of them finds something: `npm run check`. Each is a separate program; they run
// one after the other so that their output does not mix.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { faultOf } from "./lib/commit-messages.ts";
import { NoPythonTools, pythonWith } from "./lib/python-tools.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

const CHECKS: { name: string; argv: [string, ...string[]] }[] = [
  { name: "types", argv: ["tsc", "-p", ".", "--incremental", "--tsBuildInfoFile", "node_modules/.cache/types.json"] },
  { name: "lint", argv: ["oxlint", "--type-aware", "--deny-warnings"] },
  { name: "format", argv: ["prettier", "--check", "--log-level", "warn", "."] },
  { name: "dead code", argv: ["knip", "--no-progress"] },
];

/** ruff and mypy with their dependencies, from PyPI. `ruff.toml` and `mypy.ini` name the files that they check. */
const PYTHON_TOOLS = [
  "ruff==0.17.6",
  "mypy==2.4.1",
  "mypy_extensions==1.2.0",
  "pathspec==1.1.1",
  "typing_extensions==4.16.0",
  "librt==0.17.0",
  "ast_serialize==0.13.1",
];
const PYTHON_CHECKS: { name: string; args: string[] }[] = [
  { name: "Python lint", args: ["-m", "ruff", "check", "--quiet"] },
  { name: "Python format", args: ["-m", "ruff", "format", "--check", "--quiet"] },
  { name: "Python types", args: ["-m", "mypy", "--no-error-summary"] },
];

/** The rule for messages applies from this commit on. */
const MESSAGES_SINCE = "64715042589a475b17eb5358069f15df323794a7";

/** Checks the commits of this branch; skips a clone without the history, or a tree without git. */
function messagesAreRight(): boolean {
  const log = spawnSync("git", ["log", "--no-merges", "--format=%h%x00%B%x01", `${MESSAGES_SINCE}..HEAD`], {
    cwd: ROOT,
    encoding: "utf8",
  });
  if (log.status !== 0) return true;
  const faults = log.stdout.split("\u0001").flatMap((entry) => {
    const [commit, message] = entry.trimStart().split("\0");
    const fault = message === undefined ? null : faultOf(message);
    return fault === null ? [] : [`${commit} ${message?.split("\n")[0]}\n  ${fault}`];
  });
  for (const fault of faults) console.error(fault);
  return faults.length === 0;
}

function report(name: string, look: () => boolean): void {
  const startedAt = performance.now();
  const right = look();
  if (!right) failed.push(name);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${right ? "ok    " : "FAILED"}  ${name} (${seconds} s)`);
}

const failed: string[] = [];
for (const { name, argv } of CHECKS) {
  const [program, ...args] = argv;
  report(name, () => spawnSync(program, args, { cwd: ROOT, stdio: "inherit" }).status === 0);
}
try {
  const python = pythonWith("check-tools", PYTHON_TOOLS);
  for (const { name, args } of PYTHON_CHECKS)
    report(name, () => spawnSync(python, args, { cwd: ROOT, stdio: "inherit" }).status === 0);
} catch (error) {
  if (!(error instanceof NoPythonTools)) throw error;
  console.log(
    `skipped ${PYTHON_CHECKS.map(({ name }) => name).join(", ")}: ruff and mypy are not there, ${error.message}`,
  );
}
report("commit messages", messagesAreRight);
if (failed.length > 0) {
  console.error(`These checks found something: ${failed.join(", ")}.`);
  process.exitCode = 1;
}
