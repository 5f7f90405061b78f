import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectSound, LOOKS } from "./browser.ts";

describe("the page of GPUs", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  it.each(LOOKS)("names the cheapest price on demand first, at $width pixels in $colorScheme", async (look) => {
    const { width, colorScheme } = look;
    const opened = await board.open("/gpus", { viewport: { width, height: 900 }, colorScheme });
    try {
      const chips = opened.page.locator(".gpu-card .chip");
      await expect
        .poll(() => chips.allInnerTexts(), { timeout: DEADLINE_MS })
        .toEqual([expect.stringMatching(/^podhost \$0\.90\/h$/), "market"]);
      await expectSound(opened);
    } finally {
      await opened.close();
    }
  });
});
