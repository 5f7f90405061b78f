// Checks that need torch and minutes: `npm run test:training`. SVC_TEST_TORCH_PYTHON names a Python that has torch (and Ray).

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["test/training/**/*.check.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 60_000,
    teardownTimeout: 10_000,
  },
});
