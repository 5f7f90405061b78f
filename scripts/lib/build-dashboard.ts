import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../dashboard");
/** The folder in which a control plane looks for the dashboard. */
export const DASHBOARD_DIST = join(ROOT, "dist");

/**
 * Builds the dashboard into `DASHBOARD_DIST` from the start, always for production: React's other build is slower,
 * twice as large, and names the files of this computer.
 */
export async function buildDashboard(logLevel: "warn" | "error"): Promise<void> {
  // Imported only here, so that a caller that only needs the path does not wait for it.
  const { build } = await import("vite");
  const { NODE_ENV } = process.env;
  process.env.NODE_ENV = "production";
  try {
    await build({ root: ROOT, configFile: join(ROOT, "vite.config.ts"), logLevel });
  } finally {
    if (NODE_ENV === undefined) delete process.env.NODE_ENV;
    else process.env.NODE_ENV = NODE_ENV;
  }
}
