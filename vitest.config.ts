// The groups of tests; a test belongs to one of them by its folder or by its name.
//
// quick      `npm test`, in under 90 s on two cores: pure rules, stores, routes, one local run, one rented run. What no other group claims.
// whole      `npm run test:whole`: real control planes, training runs, rented machines, the SDKs, the simulation.
// machines   `npm run test:machines`: a real sshd in every test, machines that boot, networks that go away.
// dashboard  `npm run test:dashboard`: a real browser.
// long       `npm run test:long`: `*.long.test.ts`, minutes by nature.
//
// `npm run verify` runs the first four, as CI does. A test file in a folder of `quick` that starts processes for seconds is named `*.whole.test.ts`.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";
import { CREDENTIAL_FIELDS } from "./src/schemas/credential-blocks.ts";
import { DEADLINE_MS } from "./test/deadline.ts";
import { TAGS } from "./test/needs.ts";

/** Of tests that wait for processes half of their time: one more than the smallest computer has cores. */
const WORKERS = 3;

const WHOLE = ["test/{cli,e2e,process,python,rented,runner,sdk,security,sim}/**/*.test.ts", "test/**/*.whole.test.ts"];

/** Real sshd and simulated machines, part by part. */
const MACHINES = [
  "test/ssh/{agent,beside,connection,data,gate,guard,guard-hangs,keys,leave,remote-access,remote-host,startup-files,system-ssh,tree,whole-tree}.test.ts",
  "test/sim/{machines,*-sim}.test.ts",
  "test/conformance/**/*.test.ts",
];

const DASHBOARD = ["test/dashboard/**/*.test.ts"];
const LONG = ["test/**/*.long.test.ts"];

/** These need the registries, and have configurations and commands of their own: `npm run test:packages`, `npm run test:services`. */
const ASIDE = ["test/packages/**", "test/services/**", "test/training/**"];

// No test may see the user's own home, keys or settings, whatever it forgets to set. Workers inherit this environment.
const credentials = new Set(Object.values(CREDENTIAL_FIELDS).flatMap((fields) => fields.flatMap((f) => f.variables)));
for (const name of Object.keys(process.env)) {
  const ours = name.startsWith("SVC_") && !name.startsWith("SVC_TEST_") && !name.startsWith("SVC_SIM_");
  if (ours || credentials.has(name)) delete process.env[name];
}
const home = mkdtempSync(join(tmpdir(), "svc-test-home-"));
process.env.SVC_HOME = home;
// Machines that are tested with no network of their own must not download from the world's package index.
process.env.SVC_GATE_INDEX = "off";
// Hundreds of processes start from the same sources.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, "node_modules/.cache/compiled");
process.once("exit", () => rmSync(home, { recursive: true, force: true }));

export default defineConfig({
  test: {
    pool: "forks",
    // Deadlines only end what hangs; a busy computer must not fail a test.
    testTimeout: 3 * DEADLINE_MS,
    hookTimeout: 3 * DEADLINE_MS,
    teardownTimeout: 10_000,
    reporters: ["default", "./scripts/closing-line-reporter.ts"],
    tags: TAGS,
    // One second, the default of vitest, is not enough on a busy computer.
    expect: { poll: { timeout: DEADLINE_MS } },
    projects: [
      {
        extends: true,
        test: {
          name: "quick",
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...WHOLE, ...MACHINES, ...DASHBOARD, ...LONG, ...ASIDE],
          maxWorkers: WORKERS,
          setupFiles: ["test/leaks.ts"],
          env: { SVC_TEST_LEAKS: process.env["SVC_TEST_LEAKS"] ?? "fail" },
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "whole",
          include: WHOLE,
          exclude: [...configDefaults.exclude, ...MACHINES, ...LONG],
          maxWorkers: WORKERS,
          setupFiles: ["test/leaks.ts"],
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "machines",
          include: MACHINES,
          exclude: [...configDefaults.exclude, ...LONG],
          maxWorkers: 2,
          setupFiles: ["test/leaks.ts"],
          sequence: { groupOrder: 2 },
        },
      },
      ...[
        {
          name: "dashboard",
          include: DASHBOARD,
          globalSetup: ["test/dashboard/build.ts"],
          setupFiles: ["test/leaks.ts"],
        },
        { name: "long", include: LONG },
      ].map(({ name, include, globalSetup = [], setupFiles = [] }, i) => ({
        extends: true as const,
        test: {
          name,
          include,
          globalSetup,
          setupFiles,
          maxWorkers: 2,
          testTimeout: 5 * DEADLINE_MS,
          hookTimeout: 3 * DEADLINE_MS,
          sequence: { groupOrder: 3 + i },
        },
      })),
    ],
  },
});
