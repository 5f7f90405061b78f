import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectSound, LOOKS, soundly } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, HOSTILE } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };

/** A sweep: each run has a learning rate, and a loss whose least value is not its last. */
function sweep(): FakeWorld {
  const runs = [0.3, 0.1, 0.03].map((lr, i) => {
    const run = fakeRun(`lr${i}`, 100 + i, { label: `sweep ${lr}`, args: ["--lr", String(lr)], cost_usd: i });
    const value = [3, 1 + lr, 2 - lr];
    run.metrics = { loss: value.map((each, step) => ({ step, time: step, value: each, rank: 0 })) };
    return run;
  });
  const plain = fakeRun("plain", 50, { label: "no metric", args: [HOSTILE, `--name=${HOSTILE}`] });
  plain.metrics = { [HOSTILE]: [{ step: 0, time: 0, value: "NaN", rank: 0 }] };
  const old = fakeRun("old", 40 * 86_400, { label: "old run" });
  return { runs: [...runs, plain, old], machines: [], providers: [] };
}

const COLUMNS = `col=arg:lr&col=last:loss&col=min:loss&col=${encodeURIComponent(`last:${HOSTILE}`)}&col=arg:name`;

describe("the columns of the list of runs", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  it.each(LOOKS)("show chosen metrics and parameters at $width pixels in $colorScheme", async (look) => {
    const { width, colorScheme } = look;
    const opened = await board.open(`/?${COLUMNS}`, { viewport: { width, height: 900 }, colorScheme }, sweep());
    const { page } = opened;
    try {
      await page.waitForSelector(".connection-live");
      const row = page.locator("tr", { hasText: "sweep 0.1" });
      await expect.poll(() => row.innerText(), WAIT).toMatch(/0\.1\s[^]*1\.9[^]*1\.1/);
      await expectSound(opened);
      await page.locator(".column-menu > summary").click();
      await page.waitForSelector(".column-offer");
      await expectSound(opened);
    } finally {
      await opened.close();
    }
  });

  it("are chosen, ordered by and removed, with every choice in the address", async () => {
    const opened = await board.open("/", { viewport: { width: 1440, height: 900 } }, sweep());
    const { page } = opened;
    const labels = () => page.locator(".run-link").allTextContents();
    try {
      await page.waitForSelector(".connection-live");
      await page.locator(".column-menu > summary").click();
      await page.getByRole("group", { name: "Metrics" }).getByRole("button", { name: "loss" }).click();
      await page.getByLabel("Value of loss").selectOption("min");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "loss, lowest" }).click();
      // Without a value, a run comes last in both directions.
      await expect.poll(labels, WAIT).toEqual(["sweep 0.3", "sweep 0.1", "sweep 0.03", "no metric", "old run"]);
      await page.getByRole("button", { name: "loss, lowest" }).click();
      await expect.poll(labels, WAIT).toEqual(["sweep 0.03", "sweep 0.1", "sweep 0.3", "no metric", "old run"]);
      expect(new URL(page.url()).searchParams.getAll("col")).toEqual(["min:loss"]);
      await page.locator(".filters >> text=Succeeded").click();
      expect(new URL(page.url()).searchParams.get("sort")).toBe("min:loss");
      await page.locator(".column-menu > summary").click();
      await page.getByRole("button", { name: "Remove the column loss, lowest" }).click();
      expect(await page.locator(".column-menu[open]").count()).toBe(1);
      await expect.poll(() => new URL(page.url()).search, WAIT).toBe("?status=succeeded");
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  });

  it("count the filtered runs, narrow by time, and are kept as named views that all tabs see", async () => {
    const opened = await board.open("/", { viewport: { width: 1440, height: 900 } }, sweep());
    const { page } = opened;
    try {
      const count = page.locator(".page-head > p");
      await expect.poll(() => count.textContent(), WAIT).toBe("5 runs");
      await page.getByLabel("Search runs").fill("sweep");
      await expect.poll(() => count.textContent(), WAIT).toBe("3 runs");
      await page.getByLabel("Search runs").fill("");
      await page.locator(".filter-dates > summary").click();
      await page.getByRole("button", { name: "7 days" }).click();
      await expect.poll(() => count.textContent(), WAIT).toBe("4 runs");
      await expect.poll(() => page.locator(".run-link").count(), WAIT).toBe(4);
      await page.locator(".saved-views > summary").click();
      await page.getByLabel("Name of this view").fill(HOSTILE);
      await page.getByRole("button", { name: "Save" }).click();
      const other = await page.context().newPage();
      await other.goto(opened.base);
      await other.locator(".saved-views > summary").click();
      await other.locator(".saved-view a").click();
      await expect.poll(() => new URL(other.url()).search, WAIT).toBe("?from=7d");
      await other.locator(".saved-views > summary").click();
      await other.getByRole("button", { name: "Delete the view" }).click();
      await expect.poll(() => page.locator(".saved-view").count(), WAIT).toBe(0);
      await expectSound(opened);
    } finally {
      await opened.close();
    }
  });

  it("order the runs by their size on this disk, and a selection says what it would free", async () => {
    const sizes = [7_700_000, 307_000_000, 77_000_000, null];
    const runs = sizes.map((disk_bytes, i) => fakeRun(`s${i}`, 60 + i, { label: `run ${i}`, disk_bytes }));
    const world = { runs, machines: [], providers: [] };
    const opened = await board.open("/", { viewport: { width: 1440, height: 900 } }, world);
    const { page } = opened;
    await soundly(opened, async () => {
      await page.getByRole("button", { name: "Disk" }).click();
      const labels = () => page.locator(".run-link").allTextContents();
      await expect.poll(labels, WAIT).toEqual(["run 1", "run 2", "run 0", "run 3"]);
      expect(await page.locator("td.cell-disk").allTextContents()).toEqual(["307 MB", "77 MB", "7.7 MB", "–"]);
      // A size is shown once in each row.
      expect(await page.locator(".run-disk:visible").count()).toBe(0);
      await page.getByLabel("Select run 1 s1").check();
      await page.getByLabel("Select run 2 s2").check();
      const bar = page.getByRole("region", { name: "Selected runs" });
      await bar.getByText("384 MB on this disk").waitFor(WAIT);
      await bar.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("dialog").getByRole("link", { name: "run 1" }).click();
      await expect.poll(() => new URL(page.url()).search, WAIT).toBe("?tab=checkpoints");
      expect(await page.getByRole("dialog").count()).toBe(0);
    });
  });

  it.each([390, 1000])("leave the size below the name at %i pixels", async (width) => {
    await soundly(await board.open("/", { viewport: { width, height: 900 } }, sweep()), async ({ page }) => {
      await page.locator(".run-disk").first().waitFor(WAIT);
      expect(await page.locator(".cell-disk:visible").count()).toBe(0);
    });
  });

  it("order a phone's list, which has no heads, by a menu, also by a chosen column", async () => {
    const opened = await board.open("/", { viewport: { width: 390, height: 844 }, isMobile: true }, sweep());
    await soundly(opened, async ({ page }) => {
      const labels = () => page.locator(".run-link").allTextContents();
      const sort = page.getByLabel("Sort by");
      const newest = ["old run", "no metric", "sweep 0.3", "sweep 0.1", "sweep 0.03"].toSorted();
      await expect.poll(async () => (await labels()).toSorted(), WAIT).toEqual(newest);
      await sort.selectOption({ label: "Cost, highest first" });
      await expect.poll(async () => (await labels()).slice(0, 2), WAIT).toEqual(["sweep 0.03", "sweep 0.1"]);
      expect(new URL(page.url()).search).toBe("?sort=-cost");
      await page.goto(`${opened.base}/?col=min:loss`);
      await sort.selectOption({ label: "loss, lowest, lowest first" });
      await expect.poll(async () => (await labels())[0], WAIT).toBe("sweep 0.03");
      await page.reload();
      await expect.poll(() => sort.inputValue(), WAIT).toBe("min:loss");
      await sort.selectOption("Newest first");
      await expect.poll(() => new URL(page.url()).search, WAIT).toBe("?col=min%3Aloss");
      await page.setViewportSize({ width: 1440, height: 900 });
      await expect.poll(() => sort.isVisible(), WAIT).toBe(false);
    });
  });

  it("tell a run that resumes from the one that it continues, in the list and on its page", async () => {
    const world = sweep();
    const [first, second] = world.runs;
    if (!first || !second) throw new Error("the runs are missing");
    for (const run of [first, second]) run.record.label = "same name";
    second.record.resumed_from = { job: first.record.id, checkpoint: "checkpoint-1600" };
    for (const width of [390, 1440]) {
      await soundly(await board.open("/", { viewport: { width, height: 900 } }, world), async ({ page }) => {
        const row = page.locator("tr", { has: page.locator("#run-lr1") });
        await expect.poll(() => row.locator(".run-source").textContent(), WAIT).toBe("↳ resumes lr0 step 1,600");
        expect(await page.locator(".run-source").count()).toBe(1);
        // The line stays one line, also next to a long reason.
        const place = (selector: string) => row.locator(selector).evaluate((each) => each.getBoundingClientRect());
        const [name, source] = [await place(".run-link bdi"), await place(".run-source")];
        expect(source.height).toBeLessThan(24);
        expect(width > 720 ? source.left > name.right : source.top >= name.bottom).toBe(true);
        await page.locator("#run-lr1").click();
        const line = page.locator(".resume-source");
        await expect.poll(() => line.textContent(), WAIT).toBe("Resumes same name lr0 from step 1,600");
        await line.getByRole("link").click();
        await page.waitForURL("**/runs/lr0?tab=checkpoints");
        expect(await line.count()).toBe(0);
      });
    }
  });
});
