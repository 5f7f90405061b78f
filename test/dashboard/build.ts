// Builds the dashboard where a control plane looks for it: once, before any test begins. One that a file of tests built for itself would
// empty the folder while the control plane of another file reads it.

import { join } from "node:path";
import { build } from "vite";
import { hasChromium } from "../../scripts/lib/chromium.ts";

export async function setup(): Promise<void> {
  if (!hasChromium) return;
  const root = join(import.meta.dirname, "../../dashboard");
  await build({ root, configFile: join(root, "vite.config.ts"), logLevel: "error" });
}
