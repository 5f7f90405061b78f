// Pictures of the dashboard, every page at both widths and in both colour schemes, by one command: `npm run
// screenshots`. It makes a home with past runs, starts a control plane on it, and starts real runs on this computer and
// on simulated machines; nothing costs money.
//
//   npm run screenshots              into .cache/screenshots, and those of the documentation into docs/images
//   npm run screenshots -- DIRECTORY into that directory alone
//
// Each time it also makes `index.html` and `contact-sheet.png` there: a row per page, its four pictures side by side.

import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { hasChromium, launchChromium, NO_CHROMIUM } from "./lib/chromium.ts";
import { openShownWorld, type ShownWorld } from "./lib/shown-world.ts";

const PAST_RUNS = 412;
const WAIT_MS = 60_000;

interface Look {
  name: string;
  width: number;
  height: number;
  colorScheme: "light" | "dark";
}
const LOOKS: readonly Look[] = [
  { name: "wide-light", width: 1440, height: 900, colorScheme: "light" },
  { name: "wide-dark", width: 1440, height: 900, colorScheme: "dark" },
  { name: "phone-light", width: 390, height: 844, colorScheme: "light" },
  { name: "phone-dark", width: 390, height: 844, colorScheme: "dark" },
];

interface Shown {
  name: string;
  path: string;
  /** A selector that matches once the page is ready for a picture. */
  ready: string;
  /** What a person does before the picture. */
  act?: (tab: Page) => Promise<void>;
}

async function chooseToDelete(tab: Page): Promise<void> {
  await tab.getByRole("button", { name: "Select all but the best" }).click();
  await tab.getByRole("button", { name: "Delete…" }).click();
  await tab.getByText("Would free").waitFor({ timeout: WAIT_MS });
}

async function selectForTags(tab: Page): Promise<void> {
  for (const box of await tab.getByRole("checkbox", { name: /^Select sweep/ }).all()) await box.check();
  await tab.getByRole("button", { name: "Tags…" }).click();
  await tab.getByLabel("Add").fill("ablation");
}

async function showOldRuns(tab: Page): Promise<void> {
  await tab.getByLabel("Ended longer ago than").fill("3d");
  await tab.getByText("would go now").waitFor({ timeout: WAIT_MS });
  await tab.locator(".retention-fields").scrollIntoViewIfNeeded();
}

function pagesOf({ runs }: ShownWorld): Shown[] {
  const run = (name: string, tab = "") => `/runs/${runs[name] ?? ""}${tab && `?tab=${tab}`}`;
  return [
    { name: "runs", path: "/", ready: ".run-link" },
    {
      name: "columns",
      path: "/?q=sweep,&col=last:train/loss&col=min:val/loss&col=arg:lr&sort=min:val/loss",
      ready: ".runs .sparkline, .cell-chosen",
    },
    { name: "tags", path: "/?tag=sweep-3", ready: ".filters .filter bdi", act: selectForTags },
    { name: "run", path: run("rented"), ready: ".log-row" },
    { name: "resumed", path: run("resumed"), ready: ".resume-source" },
    {
      name: "compare",
      path: `${run("sweep1", "metrics")}&with=${runs["sweep2"] ?? ""},${runs["sweep3"] ?? ""}`,
      ready: ".legend-value",
    },
    { name: "metrics", path: run("busy", "metrics"), ready: "canvas" },
    { name: "log", path: run("busy", "logs"), ready: ".log-row" },
    { name: "checkpoints", path: run("busy", "checkpoints"), ready: ".files tbody tr" },
    { name: "delete", path: run("sweep2", "checkpoints"), ready: ".points li", act: chooseToDelete },
    { name: "events", path: run("rented", "events"), ready: ".events tbody tr" },
    { name: "code", path: run("digits", "code"), ready: ".code-text" },
    { name: "spec", path: run("busy", "spec"), ready: ".code-block" },
    { name: "failed", path: run("failed"), ready: ".banner" },
    { name: "refused", path: run("refused"), ready: ".banner" },
    {
      name: "new-run",
      path: "/new?entrypoint=train.py&provider=market&gpus=RTX4090%3A1&price_cap=2",
      ready: ".offers",
    },
    { name: "machines", path: "/machines", ready: "main .machine-table" },
    { name: "connect", path: "/connect?open=podhost", ready: "#podhost-api_key" },
    { name: "targets", path: "/connect?open=notify-new", ready: "#notify-new-kind" },
    { name: "notifications", path: "/notifications", ready: ".notice-list" },
    { name: "costs", path: "/costs?by=provider&days=all", ready: ".cost-table" },
    { name: "old-runs", path: "/costs?by=provider&days=all", ready: ".retention-fields", act: showOldRuns },
    { name: "receipt", path: `/costs?run=${runs["rented"] ?? ""}`, ready: ".receipt-facts" },
    { name: "gpus", path: "/gpus", ready: ".gpu-card" },
    { name: "models", path: "/models", ready: "#pull-model" },
    { name: "data", path: "/data", ready: "#data-name" },
    { name: "notebook", path: "/connect/notebook", ready: ".code-block" },
  ];
}

const IMAGES = join(import.meta.dirname, "../docs/images");
/** The pictures in the documentation, by page and look, with their file names there. */
const IN_DOCS: Readonly<Record<string, string>> = {
  "runs-wide-light": "runs",
  "run-wide-dark": "run",
  "run-phone-dark": "run-phone",
  "new-run-wide-light": "new-run",
  "metrics-wide-light": "metrics",
  "failed-wide-light": "failed",
  "machines-phone-light": "machines-phone",
};

async function shoot(browser: Browser, url: string, page: Shown, look: Look, file: string): Promise<void> {
  const { width, height, colorScheme } = look;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
  try {
    const tab = await context.newPage();
    await tab.goto(new URL(page.path, url).href);
    await tab.waitForSelector(".connection-live", { timeout: WAIT_MS });
    await tab.waitForSelector(page.ready, { timeout: WAIT_MS });
    await page.act?.(tab);
    await settled(tab);
    await tab.screenshot({ path: file });
    process.stdout.write(`${file}\n`);
  } finally {
    await context.close();
  }
}

/** These words announce data that a page is still loading; a chart in view without a value shows a dash. */
const settled = (tab: Page) =>
  tab.waitForFunction(
    () =>
      !/Reading the|Asking the|asking…/.test(document.querySelector("main")?.textContent ?? "") &&
      [...document.querySelectorAll("figcaption")].every(
        (each) => each.getBoundingClientRect().top > innerHeight || !each.textContent.trimEnd().endsWith("–"),
      ),
    null,
    { timeout: WAIT_MS },
  );

/** Waits until the rented runs have curves and checkpoints. */
async function grown({ url, runs }: ShownWorld): Promise<void> {
  for (const end = Date.now() + 3 * WAIT_MS; Date.now() < end;) {
    const answers = await Promise.all(
      ["rented", "busy"].map(async (name) => {
        const answer = await fetch(`${url}/jobs/${runs[name] ?? ""}/metrics?max_points=1000`);
        const { series } = (await answer.json()) as { series: Record<string, unknown[]> };
        return Math.max(0, ...Object.values(series).map((points) => points.length));
      }),
    );
    if (Math.min(...answers) > 600) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new Error("The runs have not come far enough to be shown.");
}

/** One page with all pictures, and one picture of that page. */
async function contactSheet(browser: Browser, directory: string, names: readonly string[]): Promise<void> {
  const cells = (name: string) =>
    LOOKS.map((look) => `<td><img src="${name}-${look.name}.png" alt="${name}, ${look.name}"></td>`).join("");
  const style =
    "body{margin:8px;background:#777;font:14px sans-serif}img{display:block;max-width:360px;max-height:300px}td,th{padding:4px;vertical-align:top;text-align:left}";
  const rows = names.map((name) => `<tr><th>${name}</th>${cells(name)}</tr>`).join("\n");
  const file = join(directory, "index.html");
  writeFileSync(
    file,
    `<!doctype html><html lang="en"><title>Pictures of the dashboard</title><style>${style}</style><table>${rows}</table></html>\n`,
  );
  const tab = await browser.newPage({ viewport: { width: 1240, height: 900 } });
  await tab.goto(pathToFileURL(file).href);
  await tab.screenshot({ path: join(directory, "contact-sheet.png"), fullPage: true });
  await tab.close();
}

if (!hasChromium) {
  process.stderr.write(`${NO_CHROMIUM}\n`);
  process.exit(2);
}
const [given] = process.argv.slice(2);
const directory = given ?? join(import.meta.dirname, "../.cache/screenshots");
mkdirSync(directory, { recursive: true });
const world = await openShownWorld({ past: PAST_RUNS, rented: true });
try {
  await grown(world);
  const browser = await launchChromium();
  for (const page of pagesOf(world))
    for (const look of LOOKS) {
      const name = `${page.name}-${look.name}`;
      const file = join(directory, `${name}.png`);
      await shoot(browser, world.url, page, look, file);
      const shown = IN_DOCS[name];
      if (given === undefined && shown !== undefined) copyFileSync(file, join(IMAGES, `${shown}.png`));
    }
  await contactSheet(
    browser,
    directory,
    pagesOf(world).map(({ name }) => name),
  );
  await browser.close();
} finally {
  await world.close();
}
