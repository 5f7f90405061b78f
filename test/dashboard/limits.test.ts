// The limits of a home on the page of costs, and a run that waits for one.

import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, soundly, type Opened } from "./browser.ts";
import { fakeLimits } from "./fake-limits.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, fakeWorld } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };

function held(asked: unknown[] = []): FakeWorld {
  const world = fakeWorld();
  const run = fakeRun("r5-waits", 900, { status: "waiting", exit_code: null, started_at: null, ended_at: null });
  const [wait] = fakeLimits().waiting;
  const since = new Date(Date.now() - 900_000).toISOString();
  run.placements = { placements: [], waiting: { since, until: null, next_at: null, tried: [], limit: wait ?? null } };
  world.runs.push(run);
  const limits = fakeLimits();
  world.answers = {
    limits: (body: unknown) => {
      if (typeof body !== "object" || body === null) return limits;
      asked.push(body);
      limits.usd_per_day = { ...limits.usd_per_day, limit: 20, left: 11.4 };
      return limits;
    },
  };
  return world;
}

describe("limits", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const looks = [
    { width: 1440, height: 1_000, colorScheme: "light" as const },
    { width: 390, height: 840, colorScheme: "dark" as const },
  ];
  const onEach = async (name: string, path: string, use: (opened: Opened, asked: unknown[]) => Promise<void>) => {
    for (const { colorScheme, ...viewport } of looks) {
      const asked: unknown[] = [];
      const opened = await board.open(path, { viewport, colorScheme }, held(asked));
      await soundly(opened, () => use(opened, asked), `${name}-${viewport.width}-${colorScheme}`);
    }
  };

  it("are shown with what is used, reserved and left, and changed where they are shown", () =>
    onEach("limits", "/costs", async ({ page }, asked) => {
      const day = page.getByRole("row", { name: /Dollars per day/ });
      await day.getByText("$1.40").waitFor(WAIT);
      await page.getByText("today's limit leaves $1.40 of $10.00").waitFor(WAIT);
      const hour = page.getByRole("row", { name: /Dollars per hour/ });
      expect(await hour.innerText()).toContain("$1.80 + ?");
      await page.getByText("Dollars per hour does not count 1 machine of unknown price as used.").waitFor(WAIT);
      const table = page.getByRole("region", { name: "Table of limits" });
      expect(await table.evaluate((box) => box.scrollWidth - box.clientWidth)).toBeLessThanOrEqual(0);
      await page.getByLabel("Dollars per day").fill("many");
      await page.getByRole("button", { name: "Save limits" }).click();
      await page.getByText("This must be a number.").waitFor(WAIT);
      expect(asked).toEqual([]);
      await page.getByLabel("Dollars per day").fill("20");
      await page.getByLabel("Machines").fill("");
      await page.getByRole("button", { name: "Save limits" }).click();
      await day.getByText("$11.40").waitFor(WAIT);
      expect(asked).toEqual([{ usd_per_day: 20, max_machines: null }]);
    }));

  it("name the position and the reason on the page of a run that waits", () =>
    onEach("limit-wait", "/runs/r5-waits", async ({ page }) => {
      await page.getByRole("heading", { name: "Waiting for a limit" }).waitFor(WAIT);
      await page.getByText("today's limit leaves $1.40 of $10.00, and the run may need $5.00").first().waitFor(WAIT);
      await page.getByText(/Number 1 of 1 since .* passed by 2 younger/).waitFor(WAIT);
      await page.getByRole("link", { name: "Show the limits" }).waitFor(WAIT);
    }));
});
