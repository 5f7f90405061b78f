// What a page asks for before its program has arrived, and that nothing older than the live connection stays on screen.

import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, type Opened } from "./browser.ts";
import { fakeRun } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
const RECORD = "/jobs/r-early";
const LOG = "/jobs/r-early/logs/lines?count=300";
const PROGRAM = "**/assets/index-*.js";
const RUN_PROGRAM = "**/assets/run-page-*.js";

/** Opens an address, and waits until the page has asked what it asks early. */
async function asked(page: Page, url: string): Promise<void> {
  await page.goto(url, { waitUntil: "commit" });
  await expect.poll(() => page.evaluate(() => "svcEarly" in globalThis), WAIT).toBe(true);
}

/** Withholds the answers for these addresses; the returned function lets them go. */
async function hold(page: Page, glob: string): Promise<() => void> {
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route(glob, async (route) => {
    await released;
    await route.continue();
  });
  return release;
}

describe("the first load of a page", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  /** A page of the dashboard that has not been to the run yet. */
  const before = async (use: (opened: Opened & { times(path: string): number }) => Promise<void>) => {
    const run = fakeRun("r-early", 60, { status: "running", ended_at: null });
    run.log = Buffer.from("row 1\n");
    const opened = await board.open("about:blank", {}, { runs: [run], machines: [], providers: [] });
    opened.page.setDefaultTimeout(WAIT.timeout);
    const times = (path: string) => opened.server.seen.filter((each) => each.path === path).length;
    try {
      await use({ ...opened, times });
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  };
  const row = (text: string) => `.log-row:has(.log-text:text-is("${text}"))`;

  it("asks for a run, its log and its program while the program of every page still loads, once each", () =>
    before(async ({ page, base, server, times }) => {
      server.silent = 1;
      const release = await hold(page, PROGRAM);
      await page.goto(`${base}/runs/r-early?tab=logs`, { waitUntil: "commit" });
      await expect.poll(() => [times(RECORD), times(LOG)], WAIT).toEqual([1, 1]);
      await expect.poll(() => server.seen.some(({ path }) => path.startsWith("/assets/run-page-")), WAIT).toBe(true);
      release();
      await page.waitForSelector(row("row 1"));
      // The connection does not open: nothing has been read a second time.
      expect([times(RECORD), times(LOG)]).toEqual([1, 1]);
      expect(server.seen.filter(({ path }) => path.startsWith("/assets/run-page-"))).toHaveLength(1);
    }));

  it("asks for the list of runs, but not for one that a filter in the address changes", () =>
    before(async ({ page, base, times }) => {
      await hold(page, PROGRAM);
      for (const filter of ["status=failed", "tag=paper", "archived=only"]) await asked(page, `${base}/?${filter}`);
      await asked(page, `${base}/?sort=created`);
      await expect.poll(() => times("/jobs?limit=100"), WAIT).toBe(1);
    }));

  it("asks for no log where the address changes what it shows", () =>
    before(async ({ page, base, times }) => {
      await hold(page, PROGRAM);
      for (const query of ["tab=metrics", "tab=logs&errors=1", "tab=logs&tag=node+1", "tab=logs&q=x&only=1"])
        await asked(page, `${base}/runs/r-early?${query}`);
      await asked(page, `${base}/runs/r-early`);
      await expect.poll(() => times(LOG), WAIT).toBe(1);
    }));

  it("shows what happened between the early answers and the live connection", () =>
    before(async ({ page, base, server, times }) => {
      const release = await hold(page, PROGRAM);
      await page.goto(`${base}/runs/r-early?tab=logs`, { waitUntil: "commit" });
      await expect.poll(() => [times(RECORD), times(LOG)], WAIT).toEqual([1, 1]);
      const run = server.run("r-early");
      // No message says so: the socket is not open yet.
      run.log = Buffer.from("row 1\nrow 2\n");
      run.record = { ...run.record, label: "renamed meanwhile" };
      release();
      await page.waitForSelector(row("row 2"));
      await page.waitForSelector("h1:has-text('renamed meanwhile')");
    }));

  it("forgets early answers when the live connection opens before they were used", () =>
    before(async ({ page, base, server, times }) => {
      const release = await hold(page, RUN_PROGRAM);
      await page.goto(`${base}/runs/r-early?tab=logs`, { waitUntil: "commit" });
      await page.waitForSelector("text=Opening the page…");
      await page.waitForSelector(".connection-live");
      expect(times(LOG)).toBe(1);
      const run = server.run("r-early");
      run.log = Buffer.from("row 1\nrow 2\n");
      run.record = { ...run.record, label: "renamed meanwhile" };
      release();
      await page.waitForSelector(row("row 2"));
      await page.waitForSelector("h1:has-text('renamed meanwhile')");
    }));
});

describe("a page whose program does not arrive", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  it("says so, keeps the bar, and is loaded again on request", async () => {
    const { page, base, close } = await board.open("about:blank");
    page.setDefaultTimeout(WAIT.timeout);
    try {
      await page.route("**/assets/machines-page-*.js", (route) => route.abort());
      await page.goto(`${base}/machines`);
      await page.waitForSelector("text=The page’s program could not be loaded");
      expect(await page.locator(".connection-live").count()).toBe(1);
      await page.unroute("**/assets/machines-page-*.js");
      await page.getByRole("button", { name: "Load it again" }).click();
      await page.getByRole("heading", { name: "Machines", level: 1 }).waitFor();
    } finally {
      await close();
    }
  });
});
