// The svc that tests of whole processes start: under `npm test` the fresh build, which starts in a third of the time; a
// test on its own runs the sources.

import { join } from "node:path";

const built = Boolean(process.env["SVC_TEST_BUILT"]);

/** For Node itself. */
export const MAIN = join(import.meta.dirname, "..", built ? "dist/cli.mjs" : "src/cli/main.ts");
/** The environment of `bin/svc`. */
export const PROGRAM: NodeJS.ProcessEnv = { SVC_NODE: process.execPath, ...(built ? {} : { SVC_FROM_SOURCE: "1" }) };

/** The environment of a script that starts a control plane with an SDK of this checkout. */
export const SDKS: NodeJS.ProcessEnv = {
  ...PROGRAM,
  PYTHONPATH: join(import.meta.dirname, "../python"),
  SVC_BIN: join(import.meta.dirname, "../bin/svc"),
};
