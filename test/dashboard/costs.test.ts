import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, soundly } from "./browser.ts";

const WAIT = { timeout: DEADLINE_MS };

describe("the page of costs", { tags: "needs/chromium" }, () => {
  const board = dashboard();

  it("says what the colours of the bars mean, and that a sum without some prices is the least that was paid", async () => {
    const opened = await board.open("/costs?by=project&days=7", { viewport: { width: 1440, height: 900 } });
    await soundly(opened, async ({ page }) => {
      const legend = page.locator(".waste-list li");
      await expect.poll(() => legend.allTextContents(), WAIT).toContain("work $37.25");
      expect(await legend.allTextContents()).toContain("failed runs $3.50");
      await page.getByText("at least $49.25").waitFor(WAIT);
    });
  });

  it("leads from failed runs, a label and a provider to the list of those runs in the same time", async () => {
    const opened = await board.open("/costs?by=label&days=7", { viewport: { width: 1440, height: 900 } });
    const { page } = opened;
    page.setDefaultTimeout(WAIT.timeout);
    const query = () => Object.fromEntries(new URL(page.url()).searchParams);
    await soundly(opened, async () => {
      await page.getByRole("link", { name: "digits, two hidden layers" }).click();
      await page.getByRole("heading", { name: "Runs" }).waitFor();
      expect(query()).toEqual({ q: "digits, two hidden layers", from: "2026-11-21" });
      await page.goBack();
      await page.getByRole("link", { name: "failed runs" }).click();
      await page.getByRole("heading", { name: "Runs" }).waitFor();
      expect(query()).toEqual({ status: "failed", from: "2026-11-21" });
      await page.goto(`${opened.base}/costs?by=provider&days=7`);
      await page.getByRole("link", { name: "market" }).click();
      await page.getByRole("heading", { name: "Runs" }).waitFor();
      expect(query()).toEqual({ provider: "market", from: "2026-11-21" });
    });
  });

  it("shows every column of its table on a phone", async () => {
    const opened = await board.open("/costs?by=label&days=7", { viewport: { width: 390, height: 844 } });
    await soundly(opened, async ({ page }) => {
      const table = page.getByRole("region", { name: "Table of costs" });
      await table.locator("tbody tr").first().waitFor(WAIT);
      expect(await table.evaluate((box) => box.scrollWidth - box.clientWidth)).toBeLessThanOrEqual(0);
    });
  });
});
