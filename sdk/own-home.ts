import { isAbsolute } from "node:path";
import { resolveHome } from "../src/platform/home.ts";

/** Homes that SVC_HOME names by a relative path, from the folder of the first call: a script that then changes its folder keeps its home. */
const relative = new Map<string, string>();

/** The home of the calls of this process: `SVC_HOME`, or `~/.svc`. Throws `user_home_unknown`. */
export function ownHome(): string {
  const named = process.env["SVC_HOME"] ?? "";
  if (named === "" || isAbsolute(named)) return resolveHome(process.env);
  const known = relative.get(named) ?? resolveHome(process.env);
  relative.set(named, known);
  return known;
}
