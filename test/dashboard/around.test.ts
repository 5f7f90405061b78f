import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectSound, LOOKS } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, HOSTILE, step } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
/** The fake server's log was written then. */
const START_S = 1_700_000_000;
const iso = (seconds: number) => new Date((START_S + seconds) * 1_000).toISOString();

function rentedWorld(): FakeWorld {
  const run = fakeRun("rented", 300, { label: "rented", provider: "market", gpus: "A100:1" });
  run.record.machines = [
    {
      id: "m1",
      name: "svc-m1",
      node: 0,
      address: null,
      state: "released",
      price_per_hour_usd: 3.6,
      created_at: run.record.created_at,
      terminated_at: null,
    },
  ];
  run.timeline.steps = [
    step("provision", 300, 290),
    step("await_ssh", 290, 240),
    step("sync", 240, 235),
    step("install", 235, 205),
    step("launch", 205, 200),
    step("stream", 200, null),
  ];
  run.log = Buffer.from(`first line\n${HOSTILE}\n\u001b[31mred\u001b[0m\n`);
  const points = Array.from({ length: 30 }, (_, i) => ({ step: i * 10, time: START_S + i, value: i, rank: 0 }));
  run.metrics = { loss: points, [HOSTILE]: points, far: [{ step: 1, time: START_S + 9_000, value: 1, rank: 0 }] };
  run.checkpoints = [
    { path: `near/${HOSTILE}`, size: 10, modified_at: iso(20) },
    { path: "late.pt", size: 10, modified_at: iso(5_000) },
  ];
  return { runs: [run], machines: [], providers: [] };
}

describe("a moment of a run", { tags: "needs/chromium" }, () => {
  const board = dashboard();

  it("is reached by a click on a point of a chart", async () => {
    const opened = await board.open(
      "/runs/rented?tab=metrics",
      { viewport: { width: 1440, height: 900 } },
      rentedWorld(),
    );
    const { page } = opened;
    try {
      const chart = page.locator("figure.chart", { hasText: "loss" }).locator(".u-over");
      await chart.waitFor(WAIT);
      const box = await chart.boundingBox();
      await chart.hover({ position: { x: (box?.width ?? 0) / 2, y: 40 } });
      await chart.click({ position: { x: (box?.width ?? 0) / 2, y: 40 } });
      await expect.poll(() => new URL(page.url()).searchParams.get("tab"), WAIT).toBe("around");
      const at = Number(new URL(page.url()).searchParams.get("at"));
      expect(at).toBeGreaterThanOrEqual((START_S + 12) * 1_000);
      expect(at).toBeLessThanOrEqual((START_S + 17) * 1_000);
      await page.goBack();
      await expect.poll(() => new URL(page.url()).searchParams.get("tab"), WAIT).toBe("metrics");
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  });

  it.each(LOOKS)("shows what was near it, and nothing else, at $width pixels in $colorScheme", async (look) => {
    const { width, colorScheme } = look;
    const path = `/runs/rented?tab=around&at=${(START_S + 15) * 1_000}`;
    const opened = await board.open(path, { viewport: { width, height: 900 }, colorScheme }, rentedWorld());
    const { page } = opened;
    try {
      const main = page.locator("main");
      await page.locator(".around-near").waitFor(WAIT);
      await expect.poll(() => page.locator("tr", { hasText: "loss" }).innerText(), WAIT).toMatch(/15\s+step 150/);
      await expect.poll(() => main.innerText(), WAIT).toContain("near/<img");
      expect(await main.innerText()).not.toMatch(/late\.pt|far/);
      await expectSound(opened);
      await page.getByRole("link", { name: "A minute later" }).click();
      await page.getByRole("link", { name: "A minute later" }).click();
      await page.getByText("The run wrote nothing within a minute of it.").waitFor(WAIT);
    } finally {
      await opened.close();
    }
  });

  it("in an invalid address is explained", async () => {
    const opened = await board.open("/runs/rented?tab=around&at=1e99", {}, rentedWorld());
    try {
      await opened.page.getByText("The address names no moment.").waitFor(WAIT);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  });

  it.each(LOOKS)(
    "The start of a rented run has a bar with owners and prices at $width pixels in $colorScheme",
    async (look) => {
      const { width, colorScheme } = look;
      const opened = await board.open("/runs/rented", { viewport: { width, height: 900 }, colorScheme }, rentedWorld());
      const { page } = opened;
      try {
        const bar = page.getByLabel("Time until the script began");
        await bar.waitFor(WAIT);
        expect(await bar.locator(".start-part").count()).toBe(4);
        expect(await bar.innerText()).toMatch(
          /1 min 40 s until the script began, \$0\.10[^]*provider, with its image 1 min 0 s \$0\.06/,
        );
        await expectSound(opened);
      } finally {
        await opened.close();
      }
    },
  );
});
