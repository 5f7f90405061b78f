// The rule that deletes old runs, on the page of costs, and archived runs in the list and on their page.

import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import type { RetentionRule } from "../../src/schemas/retention.ts";
import { dashboard, expectAccessible, soundly, takePicture, type Opened } from "./browser.ts";
import { fakeOld, fakeRetention } from "./fake-retention.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, fakeWorld } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };

function ruled(asked: unknown[]): FakeWorld {
  const world = fakeWorld();
  const state = fakeRetention();
  world.answers = {
    retention: (body: unknown) => {
      if (typeof body !== "object" || body === null || !("rule" in body)) return state;
      asked.push(body);
      const now = fakeRetention(body.rule as RetentionRule | null);
      const removed = [
        { id: "gone1", label: "an old one", at: "2026-05-02T10:00:00.000Z", freed_bytes: 5_000_000_000 },
      ];
      const doubt = now.rule && "svc did not run for 21 days until 2026-05-20, or the computer's clock was set.";
      return Object.assign(state, now, { removed, doubt });
    },
    "retention/preview": fakeOld,
  };
  return world;
}

function archivable(): FakeWorld {
  const world = fakeWorld();
  const runs = ["one", "two", "three"].map((label, i) => fakeRun(`a${i}-${label}`, 500 + i, { label }));
  return { ...world, runs, machines: [] };
}

describe("old runs", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const looks = [
    { width: 1440, height: 1_000, colorScheme: "light" as const },
    { width: 390, height: 840, colorScheme: "dark" as const },
  ];
  const onEach = async (
    name: string,
    path: string,
    worldOf: (asked: unknown[]) => FakeWorld,
    use: (opened: Opened, asked: unknown[]) => Promise<void>,
  ) => {
    for (const { colorScheme, ...viewport } of looks) {
      const asked: unknown[] = [];
      const opened = await board.open(path, { viewport, colorScheme }, worldOf(asked));
      await soundly(opened, () => use(opened, asked), `${name}-${viewport.width}-${colorScheme}`);
    }
  };

  it("are deleted by a rule only once it is saved, and the page shows before which ones would go", () =>
    onEach("retention", "/costs", ruled, async ({ page, server }, asked) => {
      await page.getByText("No rule is set: nothing is deleted by age.").waitFor(WAIT);
      await page.getByRole("button", { name: "Save rule" }).click();
      await page.getByText("This must be a number and m, h, d or w, such as 30d.").waitFor(WAIT);
      expect(asked).toEqual([]);
      await page.getByLabel("Ended longer ago than").fill("30d");
      await page.getByLabel("Keep the best by").fill("loss");
      await page.getByText("This must be METRIC:N, such as loss:3").waitFor(WAIT);
      await page.getByLabel("Keep the best by").fill("loss:3");
      await page.getByText("12 runs would go now, 48 GB").waitFor(WAIT);
      await page.getByText("As old, but kept: 3 among the best, 2 archived, 1 in use.").waitFor(WAIT);
      expect(await page.getByRole("list", { name: "Runs that would go now" }).getByRole("link").count()).toBe(8);
      const previews = server.seen.filter((each) => each.path.startsWith("/v1/retention/preview"));
      expect(previews.at(-1)?.path).toBe("/v1/retention/preview?older_than=30d&keep_best=loss%3A3");
      expect(asked).toEqual([]);
      await expectAccessible(page);
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
      await takePicture(page, `retention-due-${page.viewportSize()?.width}`);
      await page.getByRole("button", { name: "Save rule" }).click();
      await page.getByText("The date is in doubt").waitFor(WAIT);
      expect(asked).toEqual([{ rule: { older_than: "30d", keep_best: "loss:3", keep_newest: null } }]);
      await page.getByText("The rule has deleted 1 run, 5.0 GB").click();
      await page.getByText("an old one").waitFor(WAIT);
      await page.getByRole("button", { name: "Remove rule" }).click();
      await page.getByText("No rule is set: nothing is deleted by age.").waitFor(WAIT);
      expect(asked.at(-1)).toEqual({ rule: null });
    }));

  it("are archived from the list and shown by a filter, and listed again from their page", () =>
    onEach("archived", "/", archivable, async ({ page, server }) => {
      await page.getByLabel("Select one a0-one").click();
      await page.getByRole("button", { name: "Archive" }).click();
      await page.locator("#run-a0-one").waitFor({ ...WAIT, state: "detached" });
      await page.locator("#run-a1-two").waitFor(WAIT);
      await page.getByText("2 runs", { exact: true }).waitFor(WAIT);
      await page.locator(".filter-more summary").click();
      await page.getByRole("link", { name: "Archived runs" }).click();
      await page.locator("#run-a0-one").waitFor(WAIT);
      await page.locator("#run-a1-two").waitFor({ ...WAIT, state: "detached" });
      await page.getByText("1 run", { exact: true }).waitFor(WAIT);
      await page.getByRole("link", { name: /^Archived.*: show the other runs$/ }).waitFor(WAIT);
      await expectAccessible(page);
      await takePicture(page, `archived-list-${page.viewportSize()?.width}`);
      await page.locator("#run-a0-one").click();
      await page.getByText(/^Archived .*lists leave it out/).waitFor(WAIT);
      await takePicture(page, `archived-run-${page.viewportSize()?.width}`);
      await page.getByRole("button", { name: "Unarchive" }).click();
      await page.getByRole("button", { name: "Archive", exact: true }).waitFor(WAIT);
      expect(server.run("a0-one").record.archived_at).toBeNull();
      await page.getByRole("link", { name: "Runs", exact: true }).first().click();
      await page.locator("#run-a0-one").waitFor(WAIT);
    }));
});
