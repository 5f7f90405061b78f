import { describe, expect, it } from "vitest";
import { dashboard, expectSound, LOOKS } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, HOSTILE, step } from "./fake-world.ts";

const ERROR = {
  code: "price_cap_exceeded",
  message: "The cheapest offer costs $0.35/h; the cap is $0.05/h. This request rented nothing.",
  hint: "Raise price_cap.",
};

function refusedWorld(): FakeWorld {
  const run = fakeRun("capped", 100, {
    label: "above the cap",
    status: "failed",
    exit_code: null,
    started_at: null,
    provider: "market",
    gpus: "RTX4090:1",
    price_per_hour_usd: null,
    error: ERROR,
  });
  const seen = [
    { id: "o1", facts: { gpu: "RTX 4090", place: HOSTILE }, price_per_hour_usd: 0.35 },
    { id: "o2", facts: {}, price_per_hour_usd: null },
  ];
  run.timeline.steps = [
    step("provision", 100, 88, { status: "failed", error: ERROR, detail: { offers_total: 9, offers_seen: seen } }),
  ];
  const crash = fakeRun("crash", 90, {
    label: "a crash",
    status: "failed",
    error: { ...ERROR, code: "script_failed" },
  });
  return { runs: [run, crash], machines: [], providers: [] };
}

describe("a run above its cap", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  it.each(LOOKS)(
    "is refused, with the offers then, at $width pixels in $colorScheme",
    async ({ width, colorScheme }) => {
      const opened = await board.open("/", { viewport: { width, height: 900 }, colorScheme }, refusedWorld());
      const { page } = opened;
      try {
        await page.waitForSelector(".connection-live");
        const pills = page.locator(".cell-status .pill");
        await expect.poll(() => pills.allTextContents()).toEqual(["failed", "refused"]);
        await expectSound(opened);
        await page.locator("#run-capped").click();
        await page.waitForSelector(".banner-info >> text=Refused, nothing rented");
        await expect.poll(() => page.locator(".refused-offers tr").count()).toBe(2);
        const offers = await page.locator(".refused-offers").innerText();
        expect(offers).toContain("The cheapest 2 of 9 offers at that time");
        expect(offers).toMatch(/RTX 4090.*\$0\.35\/h/);
        expect(await page.locator(".banner-bad, .bar-failed, .step-failed").count()).toBe(0);
        expect(await page.title()).not.toContain("✗");
        await expectSound(opened);
      } finally {
        await opened.close();
      }
    },
  );
});
