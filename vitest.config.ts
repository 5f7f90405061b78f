// Two groups, one after the other, are `npm test`. `parts`: pure rules, stores, routes, simulations. `whole`: real control planes,
// browsers, training runs, rented machines. A third, `npm run test:machines`, is slow by nature: real sshd in every test, machines
// that boot, networks that go away.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";

const WHOLE = ["crash", "dashboard", "demo", "process", "python", "e2e", "rented"].map(
  (folder) => `test/${folder}/**/*.test.ts`,
);

/** Real sshd and simulated machines, part by part. */
const MACHINES = [
  "test/ssh/{agent,connection,guard,remote-access,remote-host,tree,whole-tree}.test.ts",
  "test/sim/{machines,*-sim}.test.ts",
  "test/conformance/**/*.test.ts",
];

/** Needs the registries, and has a command of its own: `npm run test:packages`. */
const ASIDE = ["test/packages/**"];

// No test may see the user's own home, keys or settings, whatever it forgets to set. Workers inherit this environment.
for (const name of Object.keys(process.env)) {
  const ours = name.startsWith("SVC_") && !name.startsWith("SVC_TEST_") && !name.startsWith("SVC_SIM_");
  if (ours || /^(PODHOST|MARKET|TRACKER)_API_KEY$|^HUB_(ACCESS_)?TOKEN$/.test(name)) delete process.env[name];
}
const home = mkdtempSync(join(tmpdir(), "svc-test-home-"));
process.env.SVC_HOME = home;
process.once("exit", () => rmSync(home, { recursive: true, force: true }));

export default defineConfig({
  test: {
    pool: "forks",
    testTimeout: 30_000,
    hookTimeout: 30_000,
    teardownTimeout: 10_000,
    reporters: ["default", "./scripts/closing-line-reporter.ts"],
    projects: [
      {
        extends: true,
        test: {
          name: "parts",
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...WHOLE, ...MACHINES, ...ASIDE],
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "whole",
          include: WHOLE,
          maxWorkers: 2,
          testTimeout: 120_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "machines",
          include: MACHINES,
          maxWorkers: 2,
          testTimeout: 120_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
