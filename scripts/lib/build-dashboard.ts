import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../dashboard");
/** Where a control plane looks for the dashboard. */
export const DASHBOARD_DIST = join(ROOT, "dist");

/** Builds the dashboard into `DASHBOARD_DIST`, anew. */
export async function buildDashboard(logLevel: "warn" | "error"): Promise<void> {
  // Only here: who wants to know the place alone does not wait for it.
  const { build } = await import("vite");
  await build({ root: ROOT, configFile: join(ROOT, "vite.config.ts"), logLevel });
}
