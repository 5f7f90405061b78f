// The shipped packages, as a user installs them. Run by `npm run test:packages`; needs the registries of npm and
// Python.

import { join } from "node:path";
import { defineConfig } from "vitest/config";

// No test may read the user's own home, keys or settings, and no setting of svc may redirect pip or npm.
for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) delete process.env[name];

export default defineConfig({
  root: join(import.meta.dirname, "../.."),
  test: {
    include: ["test/packages/**/*.test.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 600_000,
    reporters: ["default", "./scripts/closing-line-reporter.ts"],
  },
});
