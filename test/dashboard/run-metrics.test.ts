import { describe, expect, it } from "vitest";
import { dashboard, expectSound } from "./browser.ts";
import { fakeRun, HOSTILE } from "./fake-world.ts";
import type { MetricPoint } from "../../src/schemas/job.ts";
import { DEADLINE_MS } from "../deadline.ts";

const WAIT = { timeout: DEADLINE_MS };
const points = (count: number, value: (i: number) => MetricPoint["value"]): MetricPoint[] =>
  Array.from({ length: count }, (_, i) => ({ step: i, time: 1_700_000_000 + i, value: value(i), rank: 0 }));

describe("the metrics of a run", { tags: "needs/chromium" }, () => {
  const board = dashboard();

  it("say that the script logged no metric if only the machine was measured, and offer its measurements", async () => {
    const run = fakeRun("r-none", 60);
    run.metrics = { "system/cpu_cores": points(1, () => 0), "system/gpu0_util_percent": points(30, () => 0) };
    const opened = await board.open("/runs/r-none", {}, { runs: [run], machines: [], providers: [] });
    const { page } = opened;
    try {
      await page.getByText("The run logged no metric.").waitFor(WAIT);
      expect(await page.locator("figure.chart").count()).toBe(0);
      await page.getByRole("link", { name: "Machine usage" }).click();
      await page.locator("figure.chart canvas").nth(1).waitFor(WAIT);
      await page.getByText("The run logged no metric.").waitFor(WAIT);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  });

  it("A chart draws the points that arrive while it is drawn for the first time", async () => {
    const run = fakeRun("r-early", 60);
    const names = ["loss", "acc", "val/loss", "grad"];
    run.metrics = Object.fromEntries(names.map((name) => [name, points(300, (i) => 1 / (i + 1))]));
    const opened = await board.open(
      "/",
      { viewport: { width: 1440, height: 900 } },
      { runs: [run], machines: [], providers: [] },
    );
    const { page } = opened;
    page.setDefaultTimeout(WAIT.timeout);
    try {
      // With long frames, points arrive between the request to draw a chart and the drawing, whatever this machine's
      // speed.
      await page.addInitScript(() => {
        globalThis.requestAnimationFrame = (callback) => Number(setTimeout(() => callback(performance.now()), 150));
        globalThis.cancelAnimationFrame = (frame) => clearTimeout(frame);
      });
      let load = 0;
      await page.route("**/series/points?**", async (route) => {
        await new Promise((resolve) => setTimeout(resolve, 30 * load));
        await route.continue();
      });
      for (load = 0; load < 6; load++) {
        await page.goto(`${opened.base}/runs/r-early?tab=metrics`);
        await page.waitForFunction(
          (count) =>
            [...document.querySelectorAll(".chart-value")].filter((value) => /\d/.test(value.textContent)).length ===
            count,
          names.length,
        );
        const drawn = () =>
          page.evaluate(() =>
            [...document.querySelectorAll("figure.chart")].flatMap((figure) => {
              const canvas = figure.querySelector("canvas");
              const data = canvas?.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
              // The lines are coloured, everything else is grey.
              const coloured = (i: number) =>
                Math.max(...data.slice(i, i + 3)) - Math.min(...data.slice(i, i + 3)) > 60 && (data[i + 3] ?? 0) > 60;
              for (let i = 0; i < data.length; i += 4)
                if (coloured(i)) return [figure.querySelector(".chart-name")?.textContent];
              return [];
            }),
          );
        // No further point comes, so a line that is not drawn soon is never drawn.
        await expect.poll(drawn, { timeout: DEADLINE_MS, message: `load ${load}` }).toHaveLength(names.length);
      }
    } finally {
      await opened.close();
    }
  });

  it("are compared, zoomed, smoothed and saved; the address keeps that, and names stay text", async () => {
    const [one, two] = [fakeRun("r-one", 60, { label: "first" }), fakeRun("r-two", 90, { label: HOSTILE })];
    const dipped = points(300, (i) => (i === 150 ? "NaN" : 1 / (i + 1)));
    // After a restart it resumed from step 200.
    one.metrics = {
      "train/loss": [...dipped, ...points(300, () => 0.5).slice(200)],
      [`train/${HOSTILE}`]: points(3, (i) => i),
    };
    two.metrics = { "train/loss": points(300, () => 0.25) };
    const opened = await board.open(
      "/runs/r-one?tab=metrics",
      { viewport: { width: 1280, height: 900 } },
      { runs: [one, two], machines: [], providers: [] },
    );
    const { page } = opened;
    page.setDefaultTimeout(WAIT.timeout);
    try {
      const loss = page.locator("figure:has(.chart-name:text-is('train/loss'))");
      await loss.locator("canvas").waitFor(WAIT);
      await loss.locator(".legend-earlier:has-text('attempt 1')").waitFor(WAIT);
      await loss.getByText("1 value not finite, marked at the lower edge").waitFor(WAIT);

      await page.getByLabel("Compare with another run").selectOption("r-two");
      await loss.locator(".legend li").nth(2).waitFor(WAIT);
      expect(page.url()).toContain("with=r-two");
      await page.getByRole("button", { name: "Log y" }).click();
      await page.getByLabel("Smoothing").fill("0.9");
      await expect.poll(() => page.url(), WAIT).toContain("smooth=0.9");

      const plot = loss.locator(".u-over");
      // The figure stays; its chart is redrawn with each choice.
      await loss.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      if (!box) throw new Error("the chart has no place");
      await page.mouse.move(box.x + box.width * 0.25, box.y + 60);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.75, box.y + 60, { steps: 5 });
      await page.mouse.up();
      await page.getByRole("button", { name: "Reset zoom" }).waitFor(WAIT);
      const [from = 0, to = 0] = (new URL(page.url()).searchParams.get("zoom") ?? "").split("~").map(Number);
      expect([from > 40 && from < 110, to > 190 && to < 260]).toEqual([true, true]);

      // The pointer is still in the plot, whose value under it is shown: the buttons must not move when it leaves.
      const csv = page.getByRole("button", { name: "Save train/loss as CSV" });
      const placeOf = async (): Promise<unknown> => csv.boundingBox();
      const value = loss.locator(".chart-value");
      await expect.poll(() => value.textContent(), WAIT).not.toBe("");
      const before = await placeOf();
      await page.mouse.move(1, 1);
      await expect.poll(() => value.textContent(), WAIT).toBe("");
      expect(await placeOf()).toEqual(before);

      const coming = page.waitForEvent("download", WAIT);
      await csv.click();
      expect((await coming).suggestedFilename()).toBe("train_loss.csv");
      const picture = page.waitForEvent("download", WAIT);
      await page.getByRole("button", { name: "Save train/loss as PNG" }).click();
      expect((await picture).suggestedFilename()).toBe("train_loss.png");

      await page.reload();
      await page.getByRole("button", { name: "Reset zoom" }).click();
      await expect.poll(() => page.url(), WAIT).not.toContain("zoom=");
      await page.getByRole("button", { name: /^Remove/ }).click();
      await expect.poll(() => page.url(), WAIT).not.toContain("with=");
      expect(await page.evaluate(() => "hacked" in globalThis)).toBe(false);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  });

  it("say which of the compared runs was better, and which parameters differ", async () => {
    const rates = ["0.3", "0.1", "0.03"];
    const runs = rates.map((lr, i) => {
      const run = fakeRun(`r${i}`, 60 + i, { label: `lr ${lr}`, args: ["--lr", lr, "--width", "256"] });
      run.metrics = {
        "val/loss": points(10, (at) => Math.abs(at - 5) + [0.5, 0.25, 0.75][i]!),
        "val/accuracy": points(10, (at) => (at === 9 ? 0.9 : 0.1)),
        lr: points(10, () => Number(lr)),
      };
      return run;
    });
    runs[2]!.record.args.push("--dropout=0.2");
    const opened = await board.open(
      "/runs/r0?tab=metrics&with=r1,r2",
      { viewport: { width: 1280, height: 900 } },
      { runs, machines: [], providers: [] },
    );
    try {
      const table = opened.page.getByRole("region", { name: "Differences between the runs" });
      const row = (name: string) =>
        table.locator("tr", { has: opened.page.locator("th", { hasText: new RegExp(`^${name}$`) }) }).locator("td");
      await expect.poll(() => row("val/loss, lowest").allTextContents(), WAIT).toEqual(["0.5", "0.25 best", "0.75"]);
      // Equal values make no run the best.
      await expect.poll(() => row("val/accuracy, highest").allTextContents(), WAIT).toEqual(["0.9", "0.9", "0.9"]);
      expect(await row("lr").allTextContents()).toEqual(rates);
      expect(await row("dropout").allTextContents()).toEqual(["not set", "not set", "0.2"]);
      expect(await row("width").count()).toBe(0);
      await expectSound(opened);
    } finally {
      await opened.close();
    }
  });

  it("include another run's metrics, and a run has one colour in all charts", async () => {
    const [one, two] = [fakeRun("r-one", 60, { label: "first" }), fakeRun("r-two", 90, { label: "second" })];
    one.metrics = { both: points(30, (i) => i) };
    two.metrics = { both: points(30, (i) => 2 * i), theirs: points(1, () => 7) };
    const opened = await board.open(
      "/runs/r-one?tab=metrics&with=r-two",
      { viewport: { width: 1280, height: 900 } },
      { runs: [one, two], machines: [], providers: [] },
    );
    const { page } = opened;
    page.setDefaultTimeout(WAIT.timeout);
    try {
      const chart = (name: string) => page.locator(`figure:has(.chart-name:text-is('${name}'))`);
      await chart("both").locator(".legend li:has-text('second') .swatch-1").waitFor();
      await chart("theirs").locator(".legend li:has-text('second') .swatch-1").waitFor();
      // No number speaks for several runs: each has its own, and a pointer shows those of its place.
      const values = (name: string) => chart(name).locator(".legend li").allTextContents();
      await expect.poll(() => values("theirs"), WAIT).toEqual(["second7"]);
      await expect.poll(() => values("both"), WAIT).toEqual(["first29", "second58"]);
      expect(await chart("both").locator(".chart-value").textContent()).toBe("");
      expect(await chart("both").locator(".chart-box").getAttribute("aria-label")).toBe(
        "both: last first 29, second 58",
      );
      await chart("both")
        .locator(".u-over")
        .hover({ position: { x: 1, y: 20 } });
      await expect.poll(() => values("both"), WAIT).toEqual(["first0", "second0"]);
      await page.mouse.move(0, 0);
      await expect.poll(() => values("both"), WAIT).toEqual(["first29", "second58"]);
      expect(await page.locator(".chart-unread").count()).toBe(0);
      for (const axis of ["time", "both", "step"]) {
        await page.getByRole("combobox", { name: "x axis" }).selectOption(axis);
        await page.waitForTimeout(300);
        // The chart over the previous axis is gone.
        expect([axis, await chart("both").locator("canvas").count()]).toEqual([axis, 1]);
      }
      await page.getByText("Values as a table").click();
      await page.locator("tr:has-text('theirs'):has-text('second')").waitFor();
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  });

  it("show a node's single point as a point, and give neighbouring values different marks", async () => {
    const one = fakeRun("r-one", 60, { label: "first" });
    const at = (rank: number): MetricPoint => ({ step: 0, time: 1_700_000_000 + rank / 1000, value: rank, rank });
    one.metrics = { "system/cpu_cores": [at(0), at(1)] };
    const opened = await board.open("/runs/r-one?tab=metrics", {}, { runs: [one], machines: [], providers: [] });
    const { page } = opened;
    try {
      const canvas = page.locator("figure:has(.chart-name:text-is('CPU cores in use')) canvas");
      await canvas.waitFor(WAIT);
      const coloured = () =>
        canvas.evaluate((element: HTMLCanvasElement) => {
          const { data } = element.getContext("2d")!.getImageData(0, 0, element.width, element.height);
          let found = 0;
          for (let i = 0; i < data.length; i += 4) {
            const [red = 0, green = 0, blue = 0, seen = 0] = data.subarray(i, i + 4);
            if (seen > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 80) found++;
          }
          return found;
        });
      await expect.poll(coloured, WAIT).toBeGreaterThan(20);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  });

  it("draw the GPUs of a machine as lines of one chart, with an axis from 0 to 100 for their use", async () => {
    const run = fakeRun("r-gpus", 60);
    run.metrics = Object.fromEntries([
      ...[0, 1, 2].map((gpu) => [`system/gpu${gpu}_util_percent`, points(30, () => 40 + gpu)] as const),
      ...[0, 1, 2].map((gpu) => [`system/gpu${gpu}_memory_mib`, points(30, () => 1_000 * (gpu + 1))] as const),
    ]);
    const opened = await board.open("/runs/r-gpus?tab=metrics", {}, { runs: [run], machines: [], providers: [] });
    const { page } = opened;
    try {
      const use = page.locator("figure:has(.chart-name:text-is('GPU utilisation'))");
      await use.locator("canvas").waitFor(WAIT);
      await expect.poll(() => use.locator(".legend bdi").allTextContents(), WAIT).toEqual(["GPU 0", "GPU 1", "GPU 2"]);
      await expect.poll(() => use.locator(".chart-value").textContent(), WAIT).toBe("40 to 42");
      expect(await page.locator("figure.chart").count()).toBe(2);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  });
});
