// Tests against other people's servers, from Python's registry. Run by `npm run test:services`; each server is
// installed at an exact version into an environment of its own below `.cache/`, once.

import { join } from "node:path";
import { defineConfig } from "vitest/config";

// No test may read the user's own home, keys or settings, and no setting of svc may redirect pip.
for (const name of Object.keys(process.env)) if (/^(SVC|AWS|GOOGLE)_/.test(name)) delete process.env[name];

export default defineConfig({
  root: join(import.meta.dirname, "../.."),
  test: {
    include: ["test/services/**/*.test.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 600_000,
    reporters: ["default", "./scripts/closing-line-reporter.ts"],
  },
});
