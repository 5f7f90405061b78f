import { spawnSync } from "node:child_process";

/** The abbreviated commit of the checkout; empty outside a repository. */
export function commitHere(): string {
  const { stdout } = spawnSync("git", ["-C", import.meta.dirname, "rev-parse", "--short=7", "HEAD"], {
    encoding: "utf8",
  });
  return stdout?.trim() ?? "";
}
