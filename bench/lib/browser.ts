// Chromium for measurements of the dashboard, and the moment when it first paints useful content.

import type { Browser, Page } from "playwright-core";
import { launchChromium } from "../../scripts/lib/chromium.ts";

export async function withBrowser<T>(use: (browser: Browser) => Promise<T>): Promise<T> {
  const browser = await launchChromium();
  try {
    return await use(browser);
  } finally {
    await browser.close();
  }
}

/** Calls `use` with a new page and an empty cache, before any navigation. */
export async function withPage<T>(browser: Browser, use: (page: Page) => Promise<T>): Promise<T> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
  try {
    return await use(await context.newPage());
  } finally {
    await context.close();
  }
}

/**
 * Milliseconds from the start of the navigation until the frame after the first appearance of an element that matches.
 */
export async function paintedAfter(page: Page, url: string, selector: string): Promise<number> {
  await page.addInitScript((wanted) => {
    const painted = new Promise<number>((resolve) => {
      const look = () => {
        if (document.querySelector(wanted)) requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
        else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    });
    Object.assign(globalThis, { painted });
  }, selector);
  await page.goto(url);
  return page.evaluate(() => (globalThis as unknown as { painted: Promise<number> }).painted);
}

export interface Scroll {
  /** Pixels to scroll down before each frame. */
  px: number;
  /** The element to scroll; by default the page. */
  within?: string;
}

/** The milliseconds between so many consecutive frames, while the page scrolls. */
export async function framesOf(page: Page, frames: number, { px, within }: Scroll = { px: 0 }): Promise<number[]> {
  return page.evaluate(
    ([count, px, within]) =>
      new Promise<number[]>((resolve) => {
        const gaps: number[] = [];
        let before = performance.now();
        const view = within === null ? document.scrollingElement : document.querySelector(within);
        const next = () => {
          const now = performance.now();
          gaps.push(now - before);
          before = now;
          if (gaps.length > count) return resolve(gaps.slice(1));
          view?.scrollBy(0, px);
          requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
      }),
    [frames, px, within ?? null] as const,
  );
}
