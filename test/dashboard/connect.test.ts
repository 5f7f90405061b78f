import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectAccessible, type Opened } from "./browser.ts";

const WAIT = { timeout: DEADLINE_MS };
const focused = (page: Opened["page"]) => page.evaluate(() => document.activeElement?.textContent);

describe("the pages other than runs", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withPage = async (path: string, use: (opened: Opened) => Promise<void>) => {
    const opened = await board.open(path, { viewport: { width: 1440, height: 900 } });
    try {
      await opened.page.waitForSelector(".connection-live");
      await use(opened);
      await expectAccessible(opened.page);
      expect(await opened.page.evaluate(() => "hacked" in globalThis)).toBe(false);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  };

  it("sends a key only when it is saved, shows none, and quotes the provider's answer", () =>
    withPage("/connect?open=market", async ({ page, server }) => {
      const key = page.locator("#market-api_key");
      await key.fill("a new secret key");
      expect(await key.getAttribute("type")).toBe("password");
      await page.locator("#market").getByRole("button", { name: "Check and save" }).click();
      await page.getByText("Saved. It works.").waitFor();
      await expect.poll(() => focused(page), WAIT).toBe("Check and save");
      await page.getByText("balance $12.50").waitFor();
      const put = server.seen.filter((each) => each.method === "PUT");
      expect(put.map((each) => [each.path, each.body])).toEqual([
        ["/v1/credentials/market?check=true", { api_key: "a new secret key" }],
      ]);
      expect(await key.inputValue()).toBe("");
      expect(page.url()).not.toContain("secret");
      await page.locator("#market").getByRole("button", { name: "Check now" }).click();
      await page.getByText("The account has no SSH key.").waitFor();
    }));

  it("shows a value from the environment as read-only, with its variable", () =>
    withPage("/connect?open=podhost", async ({ page }) => {
      const key = page.locator("#podhost-api_key");
      await key.waitFor();
      expect(await key.isDisabled()).toBe(true);
      await page.locator("#podhost-api_key-help").getByText("PODHOST_API_KEY").waitFor();
    }));

  it("names the source of each value in a correct sentence", () =>
    withPage("/connect", async ({ page }) => {
      await page.locator("#podhost").getByText("connected, from the environment").waitFor();
    }));

  it("describes each service next to its name", () =>
    withPage("/connect", async ({ page }) => {
      for (const [name, words] of [
        ["tracker", "experiment tracker"],
        ["hub", "models"],
        ["objstore_a", "S3"],
        ["objstore_b", "Google Cloud Storage"],
      ] as const)
        await page.locator(`#${name} summary`, { hasText: words }).waitFor();
    }));

  it("asks before it removes a stored credential", () =>
    withPage("/connect?open=market", async ({ page, server }) => {
      const card = page.locator("#market");
      await card.getByRole("button", { name: "Remove…" }).focus();
      await page.keyboard.press("Enter");
      await expect.poll(() => focused(page), WAIT).toBe("Keep");
      expect(server.seen.some((each) => each.method === "DELETE")).toBe(false);
      await card.getByRole("button", { name: "Remove the stored credential" }).click();
      await expect.poll(() => server.seen.filter((each) => each.method === "DELETE").length, WAIT).toBe(1);
      await card.getByRole("button", { name: "Remove…" }).waitFor();
    }));

  it("previews a reconcile, and does nothing in a preview", () =>
    withPage("/machines", async ({ page, server }) => {
      await page.getByRole("button", { name: "Check only (dry run)" }).click();
      await page.getByText("Planned changes").waitFor();
      await page.getByText("No complete answer from market").waitFor();
      await page.getByText("1 machine being released by its run, and may still cost money").waitFor();
      await page.getByText("differs from event 7").waitFor();
      await page.getByText("svc-lost-1").waitFor();
      const sent = server.seen.filter((each) => each.path === "/v1/reconcile").map((each) => each.body);
      expect(sent).toEqual([{ dry_run: true }]);
    }));

  it("verifies data and names the differences", () =>
    withPage("/data?open=digits-8x8", async ({ page }) => {
      await page.getByRole("region", { name: "Files of digits-8x8" }).waitFor();
      await page.getByRole("button", { name: "Verify", exact: true }).click();
      await page.getByText("missing: gone.csv").waitFor();
    }));
});
