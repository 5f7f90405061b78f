// `npm test` runs the quick tests. With paths, such as `npm test -- test/sim/simulation.test.ts`, it runs those tests,
// whatever group they belong to.

import { join } from "node:path";

const args = process.argv.slice(2);
const named = args.some((arg) => /^(\.\/)?test\//.test(arg));
const groups = named ? ["quick", "whole", "machines", "dashboard"] : ["quick"];
const projects = groups.flatMap((name) => ["--project", name]);
const VITEST = join(import.meta.dirname, "../node_modules/vitest/vitest.mjs");
process.argv.splice(1, Infinity, VITEST, "run", ...projects, ...args);
await import(VITEST);
