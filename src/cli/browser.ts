// Opens addresses in the browser of the person at this computer. `svc serve --open` and `svc open` use it.

import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { withoutSecrets } from "../domain/secret-names.ts";

const OPENER = process.platform === "darwin" ? "open" : "xdg-open";

/** Whether a browser would open in front of the person who types: not over SSH, and not without a screen. */
export function hasBrowser(env: NodeJS.ProcessEnv): boolean {
  if (env["SSH_CONNECTION"] || env["SSH_TTY"]) return false;
  if (process.platform !== "darwin" && !env["DISPLAY"] && !env["WAYLAND_DISPLAY"]) return false;
  return (env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, OPENER), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** @param onFailure called where the program that opens browsers cannot be started. */
export function openBrowser(url: string, env: NodeJS.ProcessEnv, onFailure: () => void): void {
  const child = spawn(OPENER, [url], { stdio: "ignore", detached: true, env: withoutSecrets(env) });
  child.on("error", onFailure);
  child.unref();
}
