// The Chromium of this computer, for pictures, measurements and the dashboard's tests. CHROMIUM names another one.

import { existsSync } from "node:fs";
import { chromium, type Browser } from "playwright-core";

const EXECUTABLE = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
/** Restricts Chromium to the given pages: no traffic of its own, and no more resources than a container has. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];

export const hasChromium = existsSync(EXECUTABLE);
export const NO_CHROMIUM = `There is no Chromium at ${EXECUTABLE}; CHROMIUM names another one.`;

/** Throws `NO_CHROMIUM` if no Chromium is installed. The caller closes the browser. */
export async function launchChromium(): Promise<Browser> {
  if (!hasChromium) throw new Error(NO_CHROMIUM);
  return chromium.launch({ executablePath: EXECUTABLE, args: FLAGS });
}
