// Extras: optional parts of the Python package. Whoever starts the program from Python says in SVC_EXTRAS which ones that Python
// has (python/svc/_extras.py). Started otherwise (a checkout, the npm package) there are no extras, and nothing is missing.

import { SvcError } from "../errors/index.ts";

/** Returns when the extra is there; throws `extra_missing`, which says what to install, where it is not. */
export function requireExtra(extra: "hub" | "tracker", env: NodeJS.ProcessEnv): void {
  const there = env["SVC_EXTRAS"];
  if (there !== undefined && !there.split(",").includes(extra)) throw new SvcError("extra_missing", { extra });
}
