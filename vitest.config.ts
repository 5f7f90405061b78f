// Two groups, one after the other. `parts` shares the cores: pure rules, stores, routes, simulations. `whole` starts real
// control planes, browsers and training runs and looks at their timing, so nothing else runs beside it.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";

const WHOLE = ["crash", "dashboard", "demo", "process", "python", "e2e"].map((folder) => `test/${folder}/**/*.test.ts`);

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
          exclude: [...configDefaults.exclude, ...WHOLE],
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "whole",
          include: WHOLE,
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
