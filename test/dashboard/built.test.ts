import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { DASHBOARD_DIST } from "../../scripts/lib/build-dashboard.ts";

// Tests run with another NODE_ENV than a build, and leave their build in the checkout.
it("The dashboard is built for production by its tests, too", { tags: "needs/chromium" }, () => {
  const assets = join(DASHBOARD_DIST, "assets");
  const scripts = readdirSync(assets).filter((name) => name.endsWith(".js"));
  expect(scripts.length).toBeGreaterThan(0);
  for (const name of scripts) {
    const text = readFileSync(join(assets, name), "utf8");
    expect([name, text.includes(process.cwd()), text.includes("jsxDEV")]).toEqual([name, false, false]);
  }
});

it("The dashboard loads less than 150 kB before its first page, compressed", { tags: "needs/chromium" }, () => {
  const html = readFileSync(join(DASHBOARD_DIST, "index.html"), "utf8");
  const files = [
    "index.html",
    ...[...html.matchAll(/(?:src|href)="\/([^"]+\.(?:js|css))"/g)].map(([, path]) => path ?? ""),
  ];
  expect(files.length).toBeGreaterThan(3);
  const sizes = files.map((path) => gzipSync(readFileSync(join(DASHBOARD_DIST, path))).length);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(150_000);
});

it(
  "The dashboard's page names the files of every page's program, which early.js loads ahead",
  {
    tags: "needs/chromium",
  },
  () => {
    const html = readFileSync(join(DASHBOARD_DIST, "index.html"), "utf8");
    const content = /<meta name="svc-programs" content='([^']+)'/.exec(html)?.[1] ?? "{}";
    const programs = JSON.parse(content) as Record<string, string[]>;
    expect(Object.keys(programs)).toEqual(expect.arrayContaining(["run", "new", "machines", "costs", "connect"]));
    expect(programs["run"]?.some((path) => path.includes("/run-page-"))).toBe(true);
    for (const path of Object.values(programs).flat()) {
      expect(readFileSync(join(DASHBOARD_DIST, path)).length).toBeGreaterThan(0);
      // What every page loads is not named again.
      expect([path, html.includes(`="${path}"`)]).toEqual([path, false]);
    }
  },
);
