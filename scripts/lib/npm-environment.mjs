// The environment in which npm installs packages for this checkout: with the machine's Node, whose place decides which global
// configuration npm reads (registry, certificates), and without settings that were made for other projects.

import { delimiter, join, sep } from "node:path";

/** `process.env` for an `npm ci`, without the programs of `node_modules` in `root` on the PATH. */
export function npmEnvironment(root) {
  const inside = join(root, "node_modules") + sep;
  const PATH = (process.env.PATH ?? "")
    .split(delimiter)
    .filter((part) => !(part + sep).startsWith(inside))
    .join(delimiter);
  const env = { ...process.env, PATH };
  delete env.NODE_ENV;
  for (const name of Object.keys(env))
    if (/^npm_config_(omit|only|production|include|loglevel)$/i.test(name)) delete env[name];
  return env;
}
