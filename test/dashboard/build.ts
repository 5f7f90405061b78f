// Builds the dashboard where a control plane looks for it: once, before any test begins. A build by a single test file
// would empty the folder while the control plane of another file reads it.

import { buildDashboard } from "../../scripts/lib/build-dashboard.ts";
import { hasChromium } from "../../scripts/lib/chromium.ts";

export async function setup(): Promise<void> {
  if (hasChromium) await buildDashboard("error");
}
