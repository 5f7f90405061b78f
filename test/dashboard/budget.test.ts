import { describe, expect, it } from "vitest";
import { budgetSums } from "../../dashboard/src/run/budget-sums.ts";
import type { JobRecord } from "../../src/schemas/job.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectAccessible, type Opened } from "./browser.ts";
import { fakeAnswers } from "./fake-answers.ts";
import { fakeRun, HOSTILE } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
const HOUR_MS = 3_600_000;

const NOW = 1_800_000_000_000;

/** The instant at which the rate has used up the rest. */
const stopsAt = (leftUsd: number, rate: number, now = Date.now()) =>
  new Date(now + (leftUsd / rate) * HOUR_MS).toISOString();

const limited = (rest: Partial<JobRecord> = {}) =>
  fakeRun("r-budget", 600, {
    label: "with a budget",
    status: "running",
    exit_code: null,
    ended_at: null,
    provider: "market",
    gpus: "RTX4090:1",
    price_per_hour_usd: 0.4,
    rate_usd_per_hour: 0.4,
    budget_usd: 2,
    spent_usd: 0.31,
    budget_kept_usd: 0.04,
    budget_left_usd: 1.65,
    budget_stops_at: stopsAt(1.65, 0.4),
    spec: { entrypoint: "train.py", provider: "market", budget_usd: 2, max_runtime_minutes: 90 },
    ...rest,
  });

describe("the sums of a budget", () => {
  const record = limited({ budget_stops_at: stopsAt(1.65, 0.4, NOW) }).record;
  const after = (ms: number, rest: Partial<JobRecord> = {}) => budgetSums({ ...record, ...rest }, NOW + ms);

  it("grow with the present rate while the run lives, and stay when it has ended", () => {
    expect(after(HOUR_MS)?.spentUsd).toBeCloseTo(0.71, 6);
    expect(after(HOUR_MS)?.leftUsd).toBeCloseTo(1.25, 6);
    expect(after(HOUR_MS, { status: "timed_out" })?.spentUsd).toBe(0.31);
    expect(after(HOUR_MS, { budget_stops_at: null })?.spentUsd).toBeCloseTo(0.31, 6);
  });

  it("never fall below the record, and stay at what the script may use once it is asked to stop", () => {
    expect(after(-HOUR_MS)?.spentUsd).toBe(0.31);
    expect(after(100 * HOUR_MS)?.spentUsd).toBeCloseTo(1.96, 6);
    expect(after(100 * HOUR_MS)?.leftUsd).toBeCloseTo(0, 6);
  });

  it("never show more than the whole bar, and name the highest warning", () => {
    expect(after(0, { spent_usd: 2.4 })).toMatchObject({ spent: 1, kept: 0, leftUsd: 0, warning: 90 });
    expect(after(0, { spent_usd: 1.5 })?.warning).toBe(75);
  });

  it("are unknown with an unknown price, and absent without a budget", () => {
    expect(after(0, { spent_usd: null })).toBeNull();
    expect(after(0, { budget_usd: null })).toBeNull();
  });
});

describe("the budget of a run on its page", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withRun = async (
    run: ReturnType<typeof limited>,
    use: (opened: Opened) => Promise<void>,
    { path = "/runs/r-budget", width = 1440 } = {},
  ) => {
    const world = { runs: [run], machines: [], providers: [], answers: fakeAnswers() };
    const opened = await board.open(path, { viewport: { width, height: 900 } }, world);
    opened.page.setDefaultTimeout(DEADLINE_MS);
    try {
      await opened.page.waitForSelector(".connection-live");
      await use(opened);
      await expectAccessible(opened.page);
      expect(await opened.page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(
        0,
      );
      // The browser itself reports the answer of a refused change.
      const complaints = await opened.complaints();
      expect(complaints.filter((each) => !each.includes("409 (Conflict)"))).toEqual([]);
    } finally {
      await opened.close();
    }
  };
  const budget = ({ page }: Opened) => page.getByRole("region", { name: "Budget" });
  const patches = ({ server }: Opened) =>
    server.seen.filter(({ method }) => method === "PATCH").map(({ path, body }) => [path, body]);

  it("says what is spent, left and kept, and when the script stops, also on a phone", async () => {
    for (const width of [1440, 390])
      await withRun(
        limited({ rate_usd_per_hour: 0.0001, budget_stops_at: stopsAt(1.65, 0.0001) }),
        async (opened) => {
          const words = (await budget(opened).innerText()).replaceAll(/\s+/g, " ");
          for (const told of ["$0.31 of $2.00 spent", "$0.04 kept for the end", "$1.65 left", "it stops about"])
            expect(words).toContain(told);
        },
        { width },
      );
  });

  it("counts on while money is spent, and warns at 75 and 90 percent", () =>
    withRun(limited({ spent_usd: 1.49, rate_usd_per_hour: 36, budget_stops_at: stopsAt(0.47, 36) }), async (opened) => {
      await opened.page.locator(".budget-warn").getByText("More than 75 % spent").waitFor();
      await opened.page.locator(".budget-bad").getByText("More than 90 % spent").waitFor();
    }));

  it("says that the sum is unknown if a price is unknown", () =>
    withRun(limited({ spent_usd: null, rate_usd_per_hour: null, budget_stops_at: null }), async (opened) => {
      await budget(opened).getByText("The amount spent is unknown").waitFor();
    }));

  it("changes only the edited limits, and returns the focus", () =>
    withRun(limited(), async (opened) => {
      const { page } = opened;
      await page.getByRole("button", { name: "Edit" }).click();
      const dialog = page.getByRole("dialog");
      await expect.poll(() => page.evaluate(() => document.activeElement?.id), WAIT).toBe("field-label");
      await expectAccessible(page);
      await dialog.getByLabel("Label").fill(HOSTILE);
      await dialog.getByLabel("Budget").fill("5");
      await dialog.getByLabel("Max runtime").fill("");
      await page.keyboard.press("Enter");
      await expect
        .poll(() => patches(opened), WAIT)
        .toEqual([["/jobs/r-budget", { label: HOSTILE, budget_usd: 5, max_runtime_minutes: null }]]);
      await budget(opened).getByText("$5.00", { exact: true }).waitFor();
      await dialog.waitFor({ state: "detached" });
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent), WAIT).toBe("Edit");
      expect(await page.evaluate(() => "hacked" in globalThis)).toBe(false);
    }));

  it("shows a refusal at its field and keeps what was typed", () =>
    withRun(limited(), async (opened) => {
      const { page } = opened;
      await page.getByRole("button", { name: "Edit" }).click();
      const field = page.getByRole("dialog").getByLabel("Budget");
      await field.fill("0.2");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByText("This cannot be changed: $0.31 is already spent. Nothing was changed.").waitFor();
      expect(await field.getAttribute("aria-invalid")).toBe("true");
      expect(await field.inputValue()).toBe("0.2");
      await field.fill("plenty");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByText("This must be a number.").waitFor();
      expect(patches(opened)).toHaveLength(1);
      await page.keyboard.press("Escape");
    }));

  it("offers only the label and the tags of a run that has ended", () =>
    withRun(limited({ status: "timed_out", ended_at: new Date().toISOString() }), async ({ page }) => {
      await page.getByRole("button", { name: "Edit" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("The run has ended").waitFor();
      expect(await dialog.getByRole("textbox").count()).toBe(2);
      await dialog.getByRole("textbox", { name: "Label" }).waitFor();
      await dialog.getByRole("textbox", { name: "Tags" }).waitFor();
      await page.keyboard.press("Escape");
    }));

  it("tells warnings, changes and the end below the steps and in the events", () =>
    withRun(limited(), async ({ page, server }) => {
      const sums = { budget_usd: 2, spent_usd: 1.52, kept_usd: 0.04, left_usd: 0.44, stops_at: null };
      server.emit("budget.warned", "r-budget", { percent: 75, ...sums });
      server.emit("job.changed", "r-budget", {
        budget_usd: { from: 2, to: 5 },
        max_runtime_minutes: { from: null, to: 90 },
        label: { from: "a", to: HOSTILE },
      });
      server.emit("budget.reached", "r-budget", { ...sums, spent_usd: 4.97, budget_usd: 5 });
      const list = page.getByRole("list", { name: "Limits and budget" });
      await list.getByText("75 % of the budget is spent: $1.52 of $2.00, $0.04 kept for the end").waitFor();
      await list
        .getByText("changed: budget from $2.00 to $5.00; time limit set to 90 minutes; label from “a”")
        .waitFor();
      await list.getByText("budget reached: $4.97 of $5.00").waitFor();
      server.emit("budget.reached", "r-budget", { ...sums, spent_usd: 1.996, ends: "downloads" });
      await list
        .getByText("svc ends the downloads, because the release needs the rest of the budget: $1.996")
        .waitFor();
      await page.getByRole("link", { name: "Events" }).click();
      await page.getByRole("button", { name: "Money" }).click();
      await page.getByText("4 events").waitFor();
    }));

  it("asks for a budget before a rented run, and shows its sums or why it is too small", () =>
    withRun(
      limited(),
      async ({ page, server }) => {
        const why = "A budget of $0.01 is too small: the run needs at least $0.05 at $1.50/h.";
        const plan = fakeAnswers()["plan"] as (body: unknown) => object;
        server.world.answers = {
          ...server.world.answers,
          plan: (body: { spec: { budget_usd?: number } }) => ({
            ...plan(body),
            budget_usd: body.spec.budget_usd ?? null,
            cost_max_usd: body.spec.budget_usd ?? null,
            budget_lasts_seconds: body.spec.budget_usd === undefined ? null : 4_724,
            refusals:
              body.spec.budget_usd === 0.01
                ? [{ code: "budget_too_small", message: why, hint: "Raise `budget_usd`.", field: "spec.budget_usd" }]
                : [],
          }),
        };
        const preview = page.getByRole("region", { name: "Cost preview" });
        await page.getByLabel("Budget").fill("2");
        await preview.getByText("1 h 18 min").waitFor();
        await preview.getByText("Maximum, by the budget").waitFor();
        await page.getByLabel("Budget").fill("0.01");
        await page.locator(".field-error", { hasText: why }).waitFor();
        await preview.getByText(why).waitFor();
        await page.getByLabel("Provider").selectOption("local");
        await page.getByLabel("Budget").waitFor({ state: "detached" });
      },
      { path: "/new?entrypoint=train.py&provider=market&gpus=A100:1" },
    ));

  it("alarms on a receipt only about machines that no run uses", async () => {
    await withRun(
      limited(),
      async ({ page }) => {
        await page.getByText("The run has not ended: its amounts still grow").waitFor();
        await page.getByText("none yet: the run uses it").waitFor();
      },
      { path: "/costs?run=r-budget", width: 390 },
    );
    await withRun(
      limited({ status: "failed", ended_at: new Date().toISOString() }),
      async ({ page }) => {
        await page.getByText("A machine of this run may still cost money").waitFor();
        await page.getByText("not proven: it may still cost money").waitFor();
      },
      { path: "/costs?run=r-budget", width: 390 },
    );
  });
});
