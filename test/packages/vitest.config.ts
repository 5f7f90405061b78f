// The shipped packages, as a user installs them. Run by `npm run test:packages`; needs the registries of npm and
// Python.

import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { DEADLINE_MS } from "../deadline.ts";

// No test may read the user's own home, keys or settings, and no setting of svc may redirect pip or npm.
for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) delete process.env[name];

export default defineConfig({
  root: join(import.meta.dirname, "../.."),
  test: {
    include: ["test/packages/**/*.test.ts"],
    pool: "forks",
    fileParallelism: false,
    // They only end what hangs: each test and each hook starts several builds or installations.
    testTimeout: 20 * DEADLINE_MS,
    hookTimeout: 20 * DEADLINE_MS,
    reporters: ["default", "./scripts/closing-line-reporter.ts"],
  },
});
