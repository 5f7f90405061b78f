// A change of the computer's network fails the requests that are under way, and the live connection may stay.

import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard } from "./browser.ts";

describe("a lost request", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  it("is sent again, so that the page shows its content", async () => {
    const { page, base, close } = await board.open("about:blank");
    try {
      let left = 5;
      await page.route("**/v1/costs?*", (route) =>
        left > 0 ? (left--, route.abort("connectionreset")) : route.continue(),
      );
      await page.goto(`${base}/costs`);
      await page.waitForSelector(".connection-live");
      await page.getByText("Time of machines").waitFor({ timeout: DEADLINE_MS });
      expect(left).toBe(0);
      expect(await page.getByText("Not reachable").count()).toBe(0);
    } finally {
      await close();
    }
  });
});
