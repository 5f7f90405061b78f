// Pictures of the dashboard of a running server, at both widths and in both colour schemes.
//
//   node scripts/screenshots.ts http://127.0.0.1:8780 DIRECTORY

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

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
const SHAPES = [
  { name: "wide", width: 1440, height: 900 },
  { name: "phone", width: 390, height: 844 },
];

const [base, directory] = process.argv.slice(2);
if (!base || !directory) {
  process.stderr.write("usage: node scripts/screenshots.ts <address of svc serve> <directory>\n");
  process.exit(2);
}
mkdirSync(directory, { recursive: true });

const answer = await fetch(new URL("/jobs?limit=1", base));
const { jobs } = (await answer.json()) as { jobs: { id: string }[] };
const newest = jobs[0]?.id;
const pages: [string, string][] = [
  ["list", "/"],
  ["new", "/new"],
];
if (newest) {
  pages.push(["run", `/runs/${newest}`]);
  for (const tab of ["logs", "metrics", "checkpoints", "spec"])
    pages.push([`run-${tab}`, `/runs/${newest}?tab=${tab}`]);
}

const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: FLAGS });
try {
  for (const { name: shape, width, height } of SHAPES) {
    for (const colorScheme of ["light", "dark"] as const) {
      const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
      const page = await context.newPage();
      for (const [name, path] of pages) {
        await page.goto(new URL(path, base).href);
        await page.waitForSelector(".connection-live");
        // What a page still reads is announced by these words.
        await page.waitForFunction(() => !document.querySelector("main")?.textContent?.includes("Reading the"));
        const file = join(directory, `${name}-${shape}-${colorScheme}.png`);
        await page.screenshot({ path: file, fullPage: true });
        process.stdout.write(`${file}\n`);
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
}
