import type { BrowserContextOptions } from "playwright-core";
import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectAccessible, type Opened } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
const MANY = 3_000;

/** Many runs, newest first by their numbers. */
function manyRuns(): FakeWorld {
  const runs = Array.from({ length: MANY }, (_, i) =>
    fakeRun(`m${String(i).padStart(5, "0")}`, (MANY - i) * 60 + 100, { label: `old ${i}` }),
  );
  return { runs, machines: [], providers: [] };
}

const EMPTY: FakeWorld = { runs: [], machines: [], providers: [] };

describe("the list of runs", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withPage = async (
    path: string,
    use: (opened: Opened) => Promise<void>,
    world?: FakeWorld,
    options?: BrowserContextOptions,
    /** Messages that the browser itself may print. */
    expected: RegExp = /^$/,
  ) => {
    const opened = await board.open(path, { viewport: { width: 1440, height: 900 }, ...options }, world);
    try {
      await opened.page.waitForSelector(".connection-live");
      await use(opened);
      expect((await opened.complaints()).filter((each) => !expected.test(each))).toEqual([]);
    } finally {
      await opened.close();
    }
  };

  it("leads from an empty list to a run in one click", () =>
    withPage(
      "/",
      async ({ page, server }) => {
        await page.getByRole("button", { name: "Run the digits example here" }).click();
        await page.waitForURL("**/runs/*");
        expect(server.seen.filter((each) => each.method === "POST").map((each) => [each.path, each.body])).toEqual([
          ["/jobs", { label: "digits", spec: { entrypoint: "train.py" } }],
        ]);
      },
      structuredClone(EMPTY),
    ));

  it("counts a run from its submission, even if its script never began", async () => {
    const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString();
    const run = fakeRun("never", 100, { status: "failed", created_at: at(0), started_at: null, ended_at: at(23) });
    const late = fakeRun("late", 90, { created_at: at(0), started_at: at(20), ended_at: at(30) });
    await withPage(
      "/",
      async ({ page }) => {
        const cells = page.locator("td.cell-duration");
        await expect.poll(async () => (await cells.allTextContents()).sort(), WAIT).toEqual(["23 s", "30 s"]);
        await page.locator(".run-link").last().click();
        const fact = page.locator(".fact", { hasText: "Duration" }).locator("dd");
        await expect.poll(() => fact.textContent(), WAIT).toMatch(/^(23|30) s$/);
      },
      { runs: [run, late], machines: [], providers: [] },
    );
  });

  it("keeps every filter in the address", () =>
    withPage("/", async ({ page }) => {
      await page.waitForSelector("text=digits, two hidden layers");
      await page.getByRole("link", { name: /^failed/ }).click();
      await expect.poll(() => page.locator(".runs tbody tr").count(), WAIT).toBe(1);
      expect(page.url()).toContain("?status=failed");
      await page.goBack();
      await page.waitForSelector("text=digits, two hidden layers");
      await page.keyboard.press("/");
      await page.keyboard.type("two hidden");
      await expect.poll(() => page.url(), WAIT).toContain("q=two+hidden");
      await expect.poll(() => page.locator(".runs tbody tr").count(), WAIT).toBe(1);
      await page.reload();
      await expect.poll(() => page.locator(".runs tbody tr").count(), WAIT).toBe(1);
      expect(await page.getByLabel("Search runs").inputValue()).toBe("two hidden");
    }));

  it("draws only the visible ones of many runs, loads older ones while the user scrolls, and does not move when new ones arrive", () =>
    withPage(
      "/",
      async ({ page, server }) => {
        await page.waitForSelector(`text=old ${MANY - 1}`);
        const rows = () => page.locator(".runs tbody:not(.space) tr").count();
        expect(await rows()).toBeLessThan(60);
        // One page after the other: each scroll to the end asks for the next.
        await expect
          .poll(async () => {
            await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
            return page.evaluate(() => document.body.scrollHeight);
          }, WAIT)
          .toBeGreaterThan(38 * 800);
        expect(await rows()).toBeLessThan(60);
        await page.evaluate(() => scrollTo(0, 38 * 400));
        const middle = () =>
          page.evaluate(() => document.elementFromPoint(400, 450)?.closest("tr")?.querySelector("code")?.textContent);
        await expect.poll(middle, WAIT).toMatch(/^m0/);
        const reading = await middle();
        for (let i = 0; i < 3; i++) {
          server.world.runs.push(fakeRun(`n${i}`, 10 - i, { label: `fresh ${i}` }));
          server.emit("job.created", `n${i}`);
        }
        await page.getByRole("button", { name: "3 new runs" }).waitFor();
        await expect.poll(middle, WAIT).toBe(reading);
        await page.getByRole("button", { name: "3 new runs" }).click();
        await page.getByText("fresh 2").waitFor();
      },
      manyRuns(),
    ));

  it("shows a partial selection as partial", () =>
    withPage("/", async ({ page }) => {
      const all = page.getByLabel("Select all active runs that are loaded");
      const part = () =>
        all.evaluate((box) => [(box as HTMLInputElement).checked, (box as HTMLInputElement).indeterminate]);
      await page.getByLabel("Select digits, two hidden layers r1-digits").check();
      expect(await part()).toEqual([false, true]);
      await all.check();
      expect(await part()).toEqual([true, false]);
      await all.uncheck();
      expect(await part()).toEqual([false, false]);
    }));

  it("does not show ended runs as a selection of all active ones", () =>
    withPage(
      "/",
      async ({ page }) => {
        const all = page.getByLabel("Select all active runs that are loaded");
        const look = () =>
          all.evaluate((box) => [(box as HTMLInputElement).checked, (box as HTMLInputElement).indeterminate]);
        await page.getByLabel("Select over over").check();
        expect(await look()).toEqual([false, true]);
        await page.getByLabel("Select goes goes").check();
        expect(await look()).toEqual([true, false]);
      },
      {
        runs: [fakeRun("over", 60, { label: "over" }), fakeRun("goes", 30, { label: "goes", status: "running" })],
        machines: [],
        providers: [],
      },
    ));

  it("compares selected runs: their metrics together, and what differs between them", () =>
    withPage("/", async ({ page }) => {
      await page.getByLabel("Select digits, two hidden layers r1-digits").check();
      const bar = page.getByRole("region", { name: "Selected runs" });
      expect(await bar.getByRole("link", { name: "Compare" }).count()).toBe(0);
      await page.getByLabel(/^Select .* r2-failed$/).check();
      await bar.getByRole("link", { name: "Compare" }).click();
      const table = page.getByRole("region", { name: "Differences between the runs" });
      const row = (name: string) =>
        table.locator("tr", { has: page.locator("th", { hasText: new RegExp(`^${name}$`) }) }).locator("td");
      await expect.poll(() => row("status").allTextContents(), WAIT).toEqual(["running", "failed"]);
      expect(await table.locator("thead a").count()).toBe(2);
      await expectAccessible(page);
    }));

  it("kills several runs after it has named them with their machines and their price", () =>
    withPage("/?status=active", async ({ page, server }) => {
      await page.getByLabel("Select all active runs that are loaded").check();
      const bar = page.getByRole("region", { name: "Selected runs" });
      await bar.getByRole("button", { name: "Kill…" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.waitFor();
      const words = (await dialog.textContent()) ?? "";
      expect(words).toMatch(/machines? will be terminated and stop costing money: \$[\d.]+\/h/);
      expect(words).toContain("svc-r1-digits-0");
      await expectAccessible(page);
      expect(server.seen.some((each) => each.path.endsWith("/kill"))).toBe(false);
      await dialog.getByRole("button", { name: /^Kill \d/ }).click();
      await dialog.waitFor({ state: "detached" });
      const killed = server.seen.filter((each) => each.path.endsWith("/kill")).map((each) => each.path);
      expect(new Set(killed).size).toBe(killed.length);
      expect(killed).toContain("/jobs/r1-digits/kill");
    }));

  it("after a failure, kills only the runs that were not killed", () =>
    withPage(
      "/?status=active",
      async ({ page, server }) => {
        await page.getByLabel("Select all active runs that are loaded").check();
        await page.getByRole("region", { name: "Selected runs" }).getByRole("button", { name: "Kill…" }).click();
        let refused = 0;
        await page.route("**/kill", (route) =>
          refused++ === 0
            ? route.fulfill({
                status: 503,
                json: { title: "Unavailable", status: 503, code: "busy", detail: "The disk is slow.", hint: "" },
              })
            : route.continue(),
        );
        const dialog = page.getByRole("dialog");
        await dialog.getByRole("button", { name: /^Kill \d+ runs/ }).click();
        await dialog.getByText("1 run could not be killed:").waitFor(WAIT);
        await dialog.getByRole("button", { name: "Kill 1 run", exact: true }).click();
        await dialog.waitFor({ state: "detached", ...WAIT });
        const killed = server.seen.filter((each) => each.path.endsWith("/kill")).map((each) => each.path);
        expect(new Set(killed).size).toBe(killed.length);
      },
      undefined,
      undefined,
      /503/,
    ));

  it("kills a run on this computer without a word of terminating its machine", () =>
    withPage("/?status=active", async ({ page }) => {
      await page.getByLabel("Select digits, two hidden layers r1-digits").check();
      const bar = page.getByRole("region", { name: "Selected runs" });
      await bar.getByRole("button", { name: "Kill…" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("They run on this computer, at no cost.").waitFor();
      expect(await dialog.textContent()).not.toContain("terminated");
    }));

  it("deletes several ended runs after it has named them with their sizes", () =>
    withPage("/?status=succeeded", async ({ page, server }) => {
      const boxes = page.getByLabel(/^Select (?!all)/);
      await boxes.nth(0).check();
      await boxes.nth(1).check();
      const bar = page.getByRole("region", { name: "Selected runs" });
      expect(await bar.getByRole("button", { name: "Kill…" }).count()).toBe(0);
      await bar.getByRole("button", { name: "Delete…" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.waitFor();
      expect((await dialog.textContent()) ?? "").toContain("12 MB");
      await expectAccessible(page);
      expect(server.seen.some((each) => each.method === "DELETE")).toBe(false);
      await dialog.getByRole("button", { name: "Delete 2 runs" }).click();
      await dialog.waitFor({ state: "detached" });
      const gone = server.seen.filter((each) => each.method === "DELETE").map((each) => each.path);
      expect(new Set(gone).size).toBe(2);
      for (const path of gone) expect(await page.locator(`[id="run-${path.slice("/jobs/".length)}"]`).count()).toBe(0);
    }));

  it("stops deleting when the dialog is closed", () =>
    withPage("/?status=succeeded", async ({ page, server }) => {
      const boxes = page.getByLabel(/^Select (?!all)/);
      await boxes.nth(0).check();
      await boxes.nth(1).check();
      await page.getByRole("region", { name: "Selected runs" }).getByRole("button", { name: "Delete…" }).click();
      const [held, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      await page.route("**/jobs/*", async (route) => {
        if (route.request().method() === "DELETE") {
          begun.resolve();
          await held.promise;
        }
        await route.continue();
      });
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Delete 2 runs" }).click();
      await begun.promise;
      await dialog.getByRole("button", { name: "Keep" }).click();
      held.resolve();
      await page.getByRole("region", { name: "Selected runs" }).getByText("1 run selected").waitFor(WAIT);
      // A further request would have been sent before this answer.
      await page.evaluate(() => fetch("/v1/machines").then((answer) => answer.text()));
      expect(server.seen.filter((each) => each.method === "DELETE")).toHaveLength(1);
    }));

  it("after a failure, deletes only the runs that are still there", () =>
    withPage(
      "/?status=succeeded",
      async ({ page, server }) => {
        const boxes = page.getByLabel(/^Select (?!all)/);
        await boxes.nth(0).check();
        await boxes.nth(1).check();
        const bar = page.getByRole("region", { name: "Selected runs" });
        await bar.getByRole("button", { name: "Delete…" }).click();
        let refused = 0;
        const detail = "Its files are still being copied.";
        await page.route("**/jobs/*", (route) =>
          route.request().method() === "DELETE" && refused++ === 0
            ? route.fulfill({
                status: 409,
                json: { title: "Conflict", status: 409, code: "job_not_removable", detail, hint: "" },
              })
            : route.continue(),
        );
        const dialog = page.getByRole("dialog");
        await dialog.getByRole("button", { name: "Delete 2 runs" }).click();
        await dialog.getByText("1 run could not be deleted:").waitFor(WAIT);
        await dialog.getByRole("button", { name: "Delete 1 run" }).click();
        await dialog.waitFor({ state: "detached", ...WAIT });
        const gone = server.seen.filter((each) => each.method === "DELETE").map((each) => each.path);
        expect([gone.length, new Set(gone).size]).toEqual([2, 2]);
      },
      undefined,
      undefined,
      /409/,
    ));

  it("takes a run that is gone already for deleted, such as after a lost answer", () =>
    withPage(
      "/?status=succeeded",
      async ({ page }) => {
        await page
          .getByLabel(/^Select (?!all)/)
          .first()
          .check();
        await page.getByRole("region", { name: "Selected runs" }).getByRole("button", { name: "Delete…" }).click();
        let asked = 0;
        await page.route("**/jobs/*", async (route) => {
          if (route.request().method() !== "DELETE" || asked++ > 0) return route.continue();
          await route.fetch();
          return route.abort();
        });
        const dialog = page.getByRole("dialog");
        await dialog.getByRole("button", { name: "Delete 1 run" }).click();
        await dialog.getByText("1 run could not be deleted:").waitFor(WAIT);
        await dialog.getByRole("button", { name: "Delete 1 run" }).click();
        await dialog.waitFor({ state: "detached", ...WAIT });
        expect(await page.getByRole("region", { name: "Selected runs" }).count()).toBe(0);
      },
      undefined,
      undefined,
      /ERR_FAILED|404/,
    ));

  it("shows its age while the control plane does not answer, and catches up without reloading the page", () =>
    withPage(
      "/",
      async ({ page, server }) => {
        await page.waitForSelector("text=digits, two hidden layers");
        await page.evaluate(() => Object.assign(globalThis, { sameDocument: true }));
        server.cut(true);
        await page.getByText("The control plane does not answer: start it again").waitFor(WAIT);
        await page.waitForSelector(".connection-offline", WAIT);
        await expectAccessible(page);
        server.world.runs.push(fakeRun("late", 1, { label: "made meanwhile" }));
        server.emit("job.created", "late");
        await page.getByRole("button", { name: "Try again now" }).click();
        server.cut(false);
        await page.getByText("made meanwhile").waitFor(WAIT);
        await page.waitForSelector(".connection-live", WAIT);
        expect(await page.getByText("What you see, clocks as well").count()).toBe(0);
        expect(await page.evaluate(() => "sameDocument" in globalThis)).toBe(true);
      },
      undefined,
      {},
      /ERR_|Failed to load|WebSocket/,
    ));

  it("works with the keyboard, and lists its keys", () =>
    withPage("/", async ({ page }) => {
      await page.waitForSelector("text=digits, two hidden layers");
      await page.keyboard.press("?");
      const keys = page.getByRole("dialog", { name: "Keys" });
      await keys.getByText("Next run").waitFor();
      await expectAccessible(page);
      await keys.getByRole("button", { name: "Close" }).click();
      await keys.waitFor({ state: "detached" });
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      const second = await page.locator(".run-link").nth(1).getAttribute("href");
      await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("href")), WAIT).toBe(second);
      await page.keyboard.press("o");
      await page.waitForURL(`**${second}`);
      // Back from the run, the list continues at the same place.
      await page.goBack();
      await page.waitForSelector(".runs");
      const third = await page.locator(".run-link").nth(2).getAttribute("href");
      await page.keyboard.press("j");
      await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("href")), WAIT).toBe(third);
      await page.keyboard.press("g");
      await page.keyboard.press("m");
      await page.waitForURL("**/machines");
    }));

  it("remembers the chosen colours, and shows times in UTC on request", () =>
    withPage(
      "/machines",
      async ({ page }) => {
        const theme = () => page.evaluate(() => document.documentElement.dataset["theme"]);
        expect(await theme()).toBe("light");
        await page.getByLabel("Settings").click();
        await page.getByRole("button", { name: "Check only" }).focus();
        await page.waitForSelector(".settings:not([open])");
        await page.getByLabel("Settings").click();
        await page.getByText("Dark", { exact: true }).click();
        expect(await theme()).toBe("dark");
        await page.getByText("UTC", { exact: true }).click();
        await page.getByText(/^as of .* UTC$/).waitFor();
        await expectAccessible(page);
        await page.reload();
        expect(await theme()).toBe("dark");
        await page.getByText(/^as of .* UTC$/).waitFor();
      },
      undefined,
      { timezoneId: "Asia/Tokyo" },
    ));
});
