// Chromium for the dashboard's tests: one browser per file, a context per test, and a page that reports its errors.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { DASHBOARD_DIST } from "../../scripts/lib/build-dashboard.ts";
import { launchChromium } from "../../scripts/lib/chromium.ts";
import { FakeServer, type FakeWorld } from "./fake-server.ts";
import { fakeWorld, submitted } from "./fake-world.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export interface Visitor {
  page: Page;
  /** Errors of the console and refusals of the content policy so far. */
  complaints(): Promise<string[]>;
  close(): Promise<void>;
}

export interface Opened extends Visitor {
  server: FakeServer;
  base: string;
}

async function visit(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Visitor> {
  const context = await browser.newContext({
    reducedMotion: "reduce",
    timezoneId: "UTC",
    locale: "en-GB",
    ...options,
  });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    // The browser says this when another test adds or removes a network interface; the page sends such a request again.
    if (message.text().includes("net::ERR_NETWORK_CHANGED")) return;
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.addInitScript(() => {
    const refused: string[] = [];
    Object.assign(globalThis, { refused });
    document.addEventListener("securitypolicyviolation", (event) =>
      refused.push(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  await page.goto(url);
  return {
    page,
    complaints: async () => [
      ...complaints,
      ...(await page.evaluate(() => (globalThis as unknown as { refused: string[] }).refused)),
    ],
    close: () => context.close(),
  };
}

/**
 * Keeps a browser for the tests of one file, with a server that plays the control plane. `about:blank` opens no page of
 * it yet.
 */
export function dashboard(): {
  open(path: string, options?: BrowserContextOptions, world?: FakeWorld): Promise<Opened>;
} {
  const browser = oneBrowser();
  return {
    async open(path, options = {}, world = fakeWorld()) {
      const server = new FakeServer(DASHBOARD_DIST, world, submitted);
      const base = await server.listen();
      const visitor = await visit(browser(), path === "about:blank" ? path : base + path, options);
      return {
        ...visitor,
        server,
        base,
        close: async () => {
          await visitor.close();
          await server.close();
        },
      };
    },
  };
}

/** A browser for a control plane that hands out the dashboard itself. */
export function browserForServe(): { visit(url: string, options?: BrowserContextOptions): Promise<Visitor> } {
  const browser = oneBrowser();
  return { visit: (url, options) => visit(browser(), url, options) };
}

function oneBrowser(): () => Browser {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchChromium();
  }, 120_000);
  afterAll(async () => {
    await browser.close();
  });
  return () => browser;
}

/** Fails with the findings of axe, rule by rule. */
export async function expectAccessible(page: Page): Promise<void> {
  // Evaluated through the debugger, which the page's policy does not bind.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(
          root: Document,
          options: object,
        ): Promise<{ violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[] }>;
      };
    };
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.map(
      (each) => `${each.id}: ${each.nodes.map((node) => `${node.html} ${node.failureSummary ?? ""}`).join(" | ")}`,
    );
  });
  expect(found).toEqual([]);
}

/** Both widths and both colour schemes that every page is made for. */
export const LOOKS = [
  { width: 390, colorScheme: "light" },
  { width: 390, colorScheme: "dark" },
  { width: 1440, colorScheme: "light" },
  { width: 1440, colorScheme: "dark" },
] as const;

/** The page fits its width, is accessible, ran no foreign markup, and neither the console nor the policy complains. */
export async function expectSound({ page, complaints }: Visitor): Promise<void> {
  expect(
    await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
  ).toBeLessThanOrEqual(0);
  await expectAccessible(page);
  expect(await page.evaluate(() => "hacked" in globalThis)).toBe(false);
  expect(await complaints()).toEqual([]);
}

/** A folder for screenshots that a person looks at; none by default. */
const PICTURES = process.env["SVC_TEST_PICTURES"];

export async function takePicture(page: Page, name: string): Promise<void> {
  if (PICTURES === undefined) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
}

/** Uses a page once it is live, takes its picture if a person wants one, checks that it is sound, and closes it. */
export async function soundly(opened: Opened, use: (opened: Opened) => Promise<void>, picture?: string): Promise<void> {
  try {
    await opened.page.waitForSelector(".connection-live");
    await use(opened);
    if (picture !== undefined) await takePicture(opened.page, picture);
    await expectSound(opened);
  } finally {
    await opened.close();
  }
}
