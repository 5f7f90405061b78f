import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, type Opened } from "./browser.ts";
import { fakeRun, HOSTILE, step } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
const MILLION = 1_000_000;

describe("the log of a run", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withLog = async (log: string, where: string, use: (opened: Opened) => Promise<void>) => {
    const run = fakeRun("r-log", 60, { status: "running", ended_at: null });
    run.log = Buffer.from(log);
    const opened = await board.open(
      `/runs/r-log?tab=${where}`,
      { viewport: { width: 1280, height: 900 } },
      { runs: [run], machines: [], providers: [] },
    );
    opened.page.setDefaultTimeout(WAIT.timeout);
    try {
      await use(opened);
      expect(await opened.page.evaluate(() => "hacked" in globalThis)).toBe(false);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  };
  const row = (text: string) => `.log-row:has(.log-text:text-is("${text}"))`;

  it("scrolls to any of a million lines, and the document stays small", () =>
    withLog(Array.from({ length: MILLION }, (_, i) => `row ${i + 1}`).join("\n") + "\n", "logs", async ({ page }) => {
      await page.waitForSelector(row("row 1000000"));
      await page.waitForSelector("text=1,000,000 lines");
      const view = page.getByRole("log");
      const share = async (part: number) => view.evaluate((e, p) => (e.scrollTop = e.scrollHeight * p), part);
      await share(0);
      await page.waitForSelector(row("row 1"));
      await share(0.5);
      await expect
        .poll(async () => Number((await page.locator(".log-text").first().textContent())?.slice(4)), WAIT)
        .toBeGreaterThan(490_000);
      // The bar represents more pixels than it has: the rows are where the bar is.
      const isRow = () =>
        view.evaluate((e) => {
          const { left, top, height } = e.getBoundingClientRect();
          return document.elementFromPoint(left + 100, top + height / 2)?.closest(".log-row") !== null;
        });
      await expect.poll(isRow, WAIT).toBe(true);
      expect(await page.locator(".log-row").count()).toBeLessThan(150);
      await view.focus();
      await page.keyboard.press("g");
      await page.waitForSelector(row("row 1"));
      await page.keyboard.press("G");
      await page.waitForSelector(row("row 1000000"));
    }));

  it("stops following when the user scrolls up, counts new lines, and leads back", () =>
    withLog(Array.from({ length: 500 }, (_, i) => `row ${i + 1}\n`).join(""), "logs", async ({ page, server }) => {
      await page.waitForSelector(row("row 500"));
      await page.waitForSelector(".connection-live");
      const kept = await page.waitForSelector(row("row 495"));
      server.appendLog("r-log", "row 501\n");
      await page.waitForSelector(row("row 501"));
      // A selection in a row survives, because the row stays the same element.
      expect(await kept.evaluate((e) => e.isConnected)).toBe(true);
      const view = page.getByRole("log");
      await view.evaluate((e) => (e.scrollTop -= 2_000));
      await page.getByRole("button", { name: "Jump to end" }).waitFor();
      const top = await view.evaluate((e) => e.scrollTop);
      server.appendLog("r-log", "row 502\nrow 503\n");
      await page.getByRole("button", { name: "2 new lines, jump to end" }).click();
      await page.waitForSelector(row("row 503"));
      expect(await view.evaluate((e) => e.scrollTop)).toBeGreaterThan(top);
      expect(await page.locator(".log-jump").count()).toBe(0);
    }));

  it("keeps following on the overview while its view grows with the text", () =>
    withLog("row 1\n", "overview", async ({ page, server }) => {
      await page.waitForSelector(row("row 1"));
      await page.waitForSelector(".connection-live");
      const height = () => page.getByRole("log").evaluate((e) => e.clientHeight);
      const low = await height();
      for (let i = 2; i <= 40; i++) {
        server.appendLog("r-log", `row ${i}\n`);
        await page.waitForSelector(row(`row ${i}`));
      }
      expect(await height()).toBeGreaterThan(low);
      expect(await page.locator(".log-jump").count()).toBe(0);
    }));

  it("is searched completely, from match to match, with its position in the address", () => {
    const lines = Array.from({ length: 30_000 }, (_, i) => (i % 10_000 === 7 ? `Needle <b>${i}</b>` : `hay ${i}`));
    return withLog(lines.join("\n"), "logs", async ({ page }) => {
      await page.waitForSelector(row("hay 29999"));
      const view = page.getByRole("log");
      await view.focus();
      await page.keyboard.press("g");
      await page.waitForSelector(row("hay 0"));
      await page.keyboard.press("/");
      await page.keyboard.type("needle");
      await page.waitForSelector("text=1 / 3");
      await page.waitForSelector(".log-picked:has-text('Needle <b>7</b>')");
      // The word's first letter finds the same lines, before the word is in the address.
      await page.waitForURL(/q=needle/);
      await page.keyboard.press("Enter");
      await page.waitForSelector(".log-picked:has-text('Needle <b>10007</b>')");
      await view.focus();
      await page.keyboard.press("n");
      await page.waitForSelector("text=3 / 3");
      await page.keyboard.press("n");
      await page.waitForSelector("text=1 / 3");
      await page.keyboard.press("N");
      await page.waitForSelector(".log-picked:has-text('Needle <b>20007</b>')");
      // The address leads back to this match.
      await page.waitForURL(/line=\d/);
      await page.reload();
      await page.waitForSelector("text=3 / 3");
      await page.waitForSelector(".log-picked:has-text('Needle <b>20007</b>')");
      expect(await page.evaluate(() => [...(CSS.highlights.get("log-find") ?? [])].map(String))).toEqual(["Needle"]);
      await page.getByRole("button", { name: "Only matching" }).click();
      // The view stays at the current match.
      await page.waitForSelector("text=3 of 30,000 lines");
      await page.waitForLoadState("networkidle");
      expect(await page.locator(".log-found").textContent()).toBe("3 / 3");
      // These keys also work outside the log, and `?` lists them.
      await page.keyboard.press("n");
      await page.waitForSelector("text=1 / 3");
      await page.keyboard.press("?");
      await page.getByRole("dialog").getByText("Next match").waitFor();
      await page.keyboard.press("Escape");
      await expect.poll(() => page.locator(".log-text").allTextContents(), WAIT).toHaveLength(3);
    });
  });

  it("opens at the line that the address names", () =>
    withLog(Array.from({ length: 9_000 }, (_, i) => `row ${i + 1}`).join("\n"), "logs&line=4321", async ({ page }) => {
      await page.waitForSelector(".log-picked:has-text('row 4321')");
      await page.locator("a[data-line='4325']").click();
      await page.waitForSelector(".log-picked:has-text('row 4325')");
      expect(page.url()).toContain("line=4325");
    }));

  it("can be read to its end line by line when a few long lines are wrapped", () =>
    withLog(
      Array.from({ length: 90 }, (_, i) => `row ${i + 1} ${"of many words ".repeat(i % 3 === 0 ? 150 : 2)}\n`).join(""),
      "logs",
      async ({ page, server }) => {
        const view = page.getByRole("log");
        /** Numbers of the lines that are at least partly visible. */
        const seen = () =>
          view.evaluate((element) => {
            const { top, bottom } = element.getBoundingClientRect();
            return [...element.querySelectorAll(".log-row")].flatMap((row) => {
              const place = row.getBoundingClientRect();
              const number = row.querySelector(".log-number")?.textContent;
              return place.top < bottom - 1 && place.bottom > top + 1 ? [Number(number)] : [];
            });
          });
        await page.waitForSelector(".connection-live");
        await page.getByRole("button", { name: "Wrap" }).click();
        await expect.poll(seen, WAIT).toContain(90);
        server.appendLog("r-log", "row 91\n");
        await expect.poll(seen, WAIT).toContain(91);

        await view.hover();
        const passed = new Set<number>();
        for (let turn = 0; turn < 150 && !passed.has(1); turn++) {
          for (const number of await seen()) passed.add(number);
          await page.mouse.wheel(0, -300);
          await page.waitForTimeout(30);
        }
        expect(passed.size).toBe(91);
        await page.getByRole("button", { name: "Jump to end" }).waitFor();

        // The position stays when the lines get their old length again.
        await view.evaluate((element) => (element.scrollTop = 2_000));
        await page.waitForTimeout(100);
        const [first] = await seen();
        await page.getByRole("button", { name: "Wrap" }).click();
        await expect.poll(async () => (await seen())[0], WAIT).toBe(first);
        await page.getByPlaceholder("Search the whole log").fill("row 64");
        await expect.poll(seen, WAIT).toContain(64);
        await page.getByRole("button", { name: "Wrap" }).click();
        await expect.poll(seen, WAIT).toContain(64);
        await page.getByRole("button", { name: "Jump to end" }).click();
        await expect.poll(seen, WAIT).toContain(91);
      },
    ));

  it("begins with the first row at the top and ends with the last at the bottom when many rows are wrapped", () =>
    withLog(
      Array.from({ length: 900 }, (_, i) => `row ${i + 1} ${"of many words ".repeat(i % 9 === 0 ? 60 : 2)}\n`).join(""),
      "logs",
      async ({ page }) => {
        const view = page.getByRole("log");
        /** How far below the upper edge of the view the row begins, and how far above the lower edge it ends. */
        const gaps = (number: number) =>
          view.evaluate((element, wanted) => {
            const rows = [...element.querySelectorAll(".log-row")];
            const found = rows.find((each) => each.querySelector(".log-number")?.textContent === String(wanted));
            const [outer, inner] = [element, found ?? element].map((each) => each.getBoundingClientRect());
            if (found === undefined || outer === undefined || inner === undefined) return null;
            return [inner.top - outer.top, outer.bottom - inner.bottom].map((px) => Math.abs(px) < 20);
          }, number);
        await page.waitForSelector(".connection-live");
        await page.getByRole("button", { name: "Wrap" }).click();
        await expect.poll(async () => (await gaps(900))?.[1], WAIT).toBe(true);
        await view.focus();
        await page.keyboard.press("g");
        await expect.poll(async () => (await gaps(1))?.[0], WAIT).toBe(true);
        await page.keyboard.press("G");
        await expect.poll(async () => (await gaps(900))?.[1], WAIT).toBe(true);
      },
    ));

  it("shows only errors, only one rank, wrapped lines and text that tries to be markup", () => {
    const log = `[rank0]: fine\n[rank1]: ${HOSTILE}\n[rank1]: Traceback (most recent call last):\n[rank1]:   File "x"\n[rank1]: ValueError: no\n[rank0]: ${"long ".repeat(200)}end\n10%\r100%\n`;
    return withLog(log, "logs", async ({ page }) => {
      await page.waitForSelector(row("100%"));
      await page.getByRole("button", { name: "Errors only" }).click();
      await expect.poll(() => page.locator(".log-number").allTextContents(), WAIT).toEqual(["3", "4", "5"]);
      await page.getByRole("button", { name: "Errors only" }).click();
      await page.getByLabel("Node or rank").selectOption("rank0");
      await expect.poll(() => page.locator(".log-number").allTextContents(), WAIT).toEqual(["1", "6"]);
      await page.getByLabel("Node or rank").selectOption("");
      await page.waitForSelector(row("100%"));
      await page.getByRole("button", { name: "Wrap" }).click();
      const view = page.getByRole("log");
      await expect.poll(() => view.evaluate((e) => e.scrollWidth - e.clientWidth), WAIT).toBeLessThanOrEqual(0);
      await expect
        .poll(() => page.locator(".log-row:has-text('long')").evaluate((e) => (e as HTMLElement).offsetHeight), WAIT)
        .toBeGreaterThan(30);
    });
  });

  it.each([
    [1440, 900],
    [1280, 700],
    [390, 844],
  ])(
    "of a failed run shows its last lines in a window of %i by %i, below what is said of the end",
    async (width, height) => {
      const run = fakeRun("r-bad", 60, {
        status: "failed",
        exit_code: 1,
        error: {
          code: "script_failed",
          message: "The script ended with exit code 1: RuntimeError: it ran out of memory.",
          hint: "Read the end of its log. The machine was given back, so nothing is paid for any more.",
        },
      });
      run.log = Buffer.from(Array.from({ length: 400 }, (_, i) => `row ${i + 1}\n`).join(""));
      const opened = await board.open(
        "/runs/r-bad?tab=logs",
        { viewport: { width, height } },
        { runs: [run], machines: [], providers: [] },
      );
      try {
        await opened.page.locator(row("row 400")).waitFor(WAIT);
        const last = await opened.page.locator(row("row 400")).boundingBox();
        expect((last?.y ?? Infinity) + (last?.height ?? 0)).toBeLessThanOrEqual(height);
        const log = await opened.page.getByRole("log").boundingBox();
        // The log fills the window to its bottom edge.
        expect(height - ((log?.y ?? 0) + (log?.height ?? 0))).toBeLessThan(30);
      } finally {
        await opened.close();
      }
    },
  );

  it("opens at its end for a failed step, and says how the script ended", async () => {
    const run = fakeRun("r-bad", 60, { status: "failed", exit_code: 1 });
    run.log = Buffer.from(Array.from({ length: 400 }, (_, i) => `row ${i + 1}\n`).join(""));
    // All lines of the fake log have the same time.
    const at = (ms: number) => new Date(1_700_000_000_000 + ms).toISOString();
    const stream = {
      ...step("stream", 50, 10),
      started_at: at(-60_000),
      ended_at: at(60_000),
      detail: { exit_code: 1 },
    };
    run.timeline = { ...run.timeline, steps: [stream] };
    const opened = await board.open(
      "/runs/r-bad?step=stream.0.1",
      { viewport: { width: 1440, height: 900 } },
      { runs: [run], machines: [], providers: [] },
    );
    const detail = opened.page.locator(".step-detail");
    try {
      await detail.locator(".log-excerpt").getByText("row 400").waitFor(WAIT);
      expect(await detail.locator(".log-excerpt").innerText()).not.toContain("row 380");
      expect(await detail.innerText()).toContain("ended, exit code 1");
      expect(await detail.innerText()).not.toContain("succeeded");
      await detail.getByRole("link", { name: "Open the log at line 400" }).waitFor(WAIT);
      await opened.page.locator(".step-failed").getByText("ended, exit code 1").waitFor(WAIT);
    } finally {
      await opened.close();
    }
  });
});
