// Points of the list of 25 changes (docs/quality/dashboard-25.md) that no other test of the dashboard shows.

import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, soundly } from "./browser.ts";
import { fakeRun, fakeWorld } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };

describe("what users asked for", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const chips = (page: Page) => page.locator("ul.chips[aria-label*='as passed to the script'] li");

  it("A line of arguments is split as a shell does, shown word by word, and planned so", async () => {
    const opened = await board.open("/new?entrypoint=train.py&provider=local");
    await soundly(opened, async ({ page, server }) => {
      await page.getByLabel("Arguments", { exact: true }).fill("--epochs 10 --name 'first try'");
      await expect.poll(() => chips(page).allTextContents(), WAIT).toEqual(["--epochs", "10", "--name", "first try"]);
      const planned = () =>
        server.seen
          .filter(({ path }) => path === "/v1/plan")
          .map(({ body }) => (body as { spec: { args?: string[] } }).spec.args);
      await expect.poll(() => planned().at(-1), WAIT).toEqual(["--epochs", "10", "--name", "first try"]);
    });
  });

  it("A run that trains shows its set-up as one line, the log, the metrics and the GPUs at once, and how far it is", async () => {
    const world = fakeWorld();
    const run = world.runs.find(({ record }) => record.id === "r1-digits");
    if (!run) throw new Error("the run is missing");
    run.log = Buffer.from(Array.from({ length: 4 }, (_, i) => `epoch ${i + 1}/10 loss 0.5\n`).join(""));
    const now = Date.now() / 1_000;
    const sampled = (value: number) => [{ step: 0, time: now, value, rank: 0 }];
    Object.assign(run.metrics, { "system/gpu0_util_percent": sampled(87), "system/gpu0_memory_mib": sampled(2_048) });
    await soundly(
      await board.open("/runs/r1-digits", { viewport: { width: 1440, height: 900 } }, world),
      async ({ page }) => {
        await page.getByRole("region", { name: "Progress" }).getByText("4 of 10").waitFor(WAIT);
        const gpu = page.getByRole("region", { name: "GPUs now" }).locator(".use-row");
        await expect.poll(() => gpu.innerText(), WAIT).toMatch(/GPU 0\s+87 %\s+2 GiB/);
        const steps = page.getByRole("region", { name: "Steps" });
        await steps.getByText("Set-up").waitFor(WAIT);
        expect(await steps.getByText("Connect", { exact: true }).count()).toBe(0);
        for (const name of ["Log", "Metrics"]) {
          const place = await page.getByRole("region", { name, exact: true }).boundingBox();
          expect(place?.y, name).toBeLessThan(900);
        }
      },
    );
  });

  it("The words are those of people: no name of a state or a step of the engine is on the pages", async () => {
    const engine = /\bawait_ssh\b|\bawait ssh\b|\bcollect\b|\bheld\b|\bintended\b|\bmoments\b|to come\b|Least VRAM/;
    for (const path of [
      "/",
      "/runs/r1-digits",
      "/runs/r3-retry",
      "/machines",
      "/gpus",
      "/new",
      "/?q=nothing-like-that",
    ])
      await soundly(await board.open(path), async ({ page }) => {
        await page.locator("main h1").first().waitFor();
        expect([path, engine.exec(await page.locator("main").innerText())?.[0]]).toEqual([path, undefined]);
      });
  });

  it("A phone shows every tab of a run, and the tab of checkpoints has their number", async () => {
    await soundly(
      await board.open("/runs/r1-digits?tab=spec", { viewport: { width: 390, height: 844 } }),
      async ({ page }) => {
        const tabs = page.getByRole("navigation", { name: "Parts of the run" });
        await expect
          .poll(() => tabs.getByRole("link", { name: "Checkpoints" }).textContent(), WAIT)
          .toBe("Checkpoints3");
        // Also once the number has pushed the last tab to the right.
        const edge = async () => {
          const current = await tabs.locator("[aria-current=page]").boundingBox();
          return (current?.x ?? 0) + (current?.width ?? 391);
        };
        await expect.poll(edge, WAIT).toBeLessThanOrEqual(390);
      },
    );
  });

  it("The tab of events has their number, and a mark if a run failed before its script", async () => {
    const world = fakeWorld();
    const run = world.runs.find(({ record }) => record.id === "r2-failed");
    if (!run) throw new Error("the run is missing");
    for (const [code, tab] of [
      ["script_failed", "logs"],
      ["no_capacity", "events"],
    ] as const) {
      run.record.error = { code, message: "Something failed.", hint: "Do something." } as typeof run.record.error;
      await soundly(await board.open("/runs/r2-failed", {}, world), async ({ page, server }) => {
        const events = page.locator("[data-tab=events]");
        expect(await events.locator(".tab-count").count()).toBe(0);
        for (let i = 0; i < 3; i++) server.emit("job.note", "r2-failed", { message: "a note" });
        await expect.poll(() => events.textContent(), WAIT).toBe("Events3");
        expect(
          await page.locator(".tab-mark").evaluateAll((all) => all.map((each) => each.closest("a")?.dataset["tab"])),
        ).toEqual([tab]);
      });
    }
  });

  it("A row of the list is 38 pixels high, so 19 runs are on a screen of 900, and keeps its name next to a long reason", async () => {
    const runs = Array.from({ length: 60 }, (_, i) => fakeRun(`m${i}`, 1_000 + i, { label: `a name of a run ${i}` }));
    for (const { record } of runs.slice(0, 20))
      record.note = { kind: "still_listed", message: "A sentence about the provider that is too long to fit into it." };
    for (const width of [760, 1100, 1440])
      await soundly(
        await board.open("/", { viewport: { width, height: 900 } }, { runs, machines: [], providers: [] }),
        async ({ page }) => {
          const rows = page.locator(".runs tbody:not(.space) tr");
          await expect.poll(() => rows.count(), WAIT).toBeGreaterThan(19);
          const heights = await rows.evaluateAll((all) => all.map((each) => each.getBoundingClientRect().height));
          expect([width, [...new Set(heights)]]).toEqual([width, [38]]);
          // A reason that does not fit ends with an ellipsis inside its cell.
          const outside = await page.locator(".runs .reason").evaluateAll(
            (all) =>
              all.filter((each) => {
                const cell = each.closest(".run-cell")?.getBoundingClientRect();
                return each.getBoundingClientRect().right > (cell?.right ?? 0) + 1;
              }).length,
          );
          expect([width, outside]).toEqual([width, 0]);
          if (width < 1_440) return;
          expect((await rows.nth(17).boundingBox())?.y).toBeLessThan(900 - 38);
          const names = await page
            .locator(".run-link")
            .evaluateAll((all) => all.every((each) => each.scrollWidth <= each.clientWidth));
          expect(names).toBe(true);
        },
      );
  });

  it("A finger opens a run anywhere on its card, and has 44 pixels for its box and its button", async () => {
    const look = { viewport: { width: 390, height: 844 }, hasTouch: true };
    await soundly(await board.open("/", look), async ({ page }) => {
      const card = page.locator("tr", { has: page.locator("#run-r1-digits") });
      await card.scrollIntoViewIfNeeded();
      const target = (selector: string) =>
        card.locator(selector).evaluate((each) => {
          const size = (dx: number, dy: number) => {
            const { left, top, width, height } = each.getBoundingClientRect();
            const [x, y] = [left + width / 2, top + height / 2];
            const hits = (n: number) => each.contains(document.elementFromPoint(x + n * dx, y + n * dy));
            let [from, to] = [0, 0];
            while (hits(from - 1)) from--;
            while (hits(to + 1)) to++;
            return to - from + 1;
          };
          return [size(1, 0), size(0, 1)].map((pixels) => Math.min(44, pixels));
        });
      expect(await target(".row-hit")).toEqual([44, 44]);
      expect(await target(".cell-actions .button")).toEqual([44, 44]);
      const cost = await card.locator(".cell-cost").boundingBox();
      await page.touchscreen.tap((cost?.x ?? 0) + 4, (cost?.y ?? 0) + 8);
      await page.waitForURL("**/runs/r1-digits");
    });
  });

  it("A long duration fits into its cell", async () => {
    const run = fakeRun("long", 60_000, { label: "long" });
    run.record.ended_at = new Date(Date.parse(run.record.created_at) + 1_548_000).toISOString();
    const world = { runs: [run], machines: [], providers: [] };
    for (const width of [390, 1100, 1440])
      await soundly(await board.open("/", { viewport: { width, height: 900 } }, world), async ({ page }) => {
        const cell = page.locator("td.cell-duration");
        await expect.poll(() => cell.innerText(), WAIT).toBe("25 min 48 s");
        const fits = await cell.evaluate((each) => each.scrollWidth <= each.clientWidth);
        expect([width, fits]).toEqual([width, true]);
      });
  });
});
