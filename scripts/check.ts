// All static checks, all of them even when one finds something: `npm run check`.
// Each is a program of its own on this machine's cores; they run one after the other so that their words do not mix.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

const CHECKS: { name: string; argv: [string, ...string[]] }[] = [
  { name: "types", argv: ["tsc", "-p", "."] },
  { name: "lint", argv: ["oxlint", "--type-aware", "--deny-warnings"] },
  { name: "format", argv: ["prettier", "--check", "--log-level", "warn", "."] },
  { name: "dead code", argv: ["knip", "--no-progress"] },
];

const failed: string[] = [];
for (const { name, argv } of CHECKS) {
  const [program, ...args] = argv;
  const startedAt = performance.now();
  const done = spawnSync(program, args, { cwd: ROOT, stdio: "inherit" });
  if (done.status !== 0) failed.push(name);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${done.status === 0 ? "ok    " : "FAILED"}  ${name} (${seconds} s)`);
}
if (failed.length > 0) {
  console.error(`These checks found something: ${failed.join(", ")}.`);
  process.exitCode = 1;
}
