import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { DASHBOARD_DIST } from "../../scripts/lib/build-dashboard.ts";

// Tests run with another NODE_ENV than a build, and leave their build in the checkout.
it("is built for production by its tests, too", { tags: "needs/chromium" }, () => {
  const assets = join(DASHBOARD_DIST, "assets");
  const scripts = readdirSync(assets).filter((name) => name.endsWith(".js"));
  expect(scripts.length).toBeGreaterThan(0);
  for (const name of scripts) {
    const text = readFileSync(join(assets, name), "utf8");
    expect([name, text.includes(process.cwd()), text.includes("jsxDEV")]).toEqual([name, false, false]);
  }
});
