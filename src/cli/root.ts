import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The folder that contains package.json, at or above this file: the same from the sources and from the bundle. */
export function checkoutRoot(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, "package.json"))) {
    const up = dirname(folder);
    if (up === folder) return import.meta.dirname;
    folder = up;
  }
  return folder;
}

/** The version of svc, from its package.json. */
export function version(): string {
  try {
    return String(JSON.parse(readFileSync(join(checkoutRoot(), "package.json"), "utf8")).version);
  } catch {
    return "unknown";
  }
}
