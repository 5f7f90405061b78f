// Extras: optional parts of the Python package. The Python package names its installed extras in SVC_EXTRAS
// (python/svc/_extras.py). A program started otherwise (a checkout, the npm package) has no extras, and nothing is
// missing.

import { SvcError } from "../errors/index.ts";

/** Returns if the extra is installed; otherwise throws `extra_missing`, which says what to install. */
export function requireExtra(extra: "hub" | "tracker", env: NodeJS.ProcessEnv): void {
  const there = env["SVC_EXTRAS"];
  if (there !== undefined && !there.split(",").includes(extra)) throw new SvcError("extra_missing", { extra });
}
