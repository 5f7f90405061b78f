// Placements in the dashboard: the lanes of a run that used several machines, a run that waits for one, and the candidates of a new run.

import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import type { Placement } from "../../src/schemas/placement.ts";
import { dashboard, soundly, takePicture, type Opened } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, fakeWorld, step } from "./fake-world.ts";
import { HOSTILE } from "./hostile.ts";

const WAIT = { timeout: DEADLINE_MS };
const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000).toISOString();

const placement = (n: number, rest: Partial<Placement>): Placement => ({
  n,
  candidate: n - 1,
  provider: "podhost",
  gpus: "A100",
  region: null,
  spot: "never",
  status: "failed",
  opened_at: ago(3_600),
  started_at: null,
  closed_at: ago(3_500),
  price_per_hour_usd: null,
  cost_usd: 0,
  failure: "no_machine",
  step: "provision",
  error: { code: "no_offer", message: `podhost has no machine (${HOSTILE}).`, hint: "" },
  exit_code: null,
  checkpoint: null,
  resumed_from: null,
  goes_on: true,
  work_lost_seconds: 0,
  work_lost_usd: null,
  saved_usd: null,
  machines: [],
  ...rest,
});

function moved(): FakeWorld {
  const world = fakeWorld();
  const run = fakeRun("p1-moved", 3_600, {
    label: "finetune on whatever is free",
    status: "running",
    exit_code: null,
    ended_at: null,
    provider: "market",
    gpus: "H100:2",
    placements: 3,
    price_per_hour_usd: 3.6,
    cost_usd: 1.9,
    note: {
      kind: "continuing",
      message: "Placement 3; placement 2 on market H100:2 ended: The provider took it back.",
    },
  });
  run.placements = {
    placements: [
      placement(1, {}),
      placement(2, {
        provider: "market",
        gpus: "H100:2",
        region: "EU",
        spot: "prefer",
        opened_at: ago(3_400),
        closed_at: ago(1_500),
        price_per_hour_usd: 1.2,
        cost_usd: 0.63,
        failure: "preempted",
        step: "stream",
        error: { code: "machine_preempted", message: "The provider took the machine back.", hint: "" },
        work_lost_seconds: 240,
        work_lost_usd: 0.08,
        saved_usd: 1.26,
        machines: ["m2"],
      }),
      placement(3, {
        provider: "market",
        gpus: "H100:2",
        status: "running",
        opened_at: ago(1_400),
        closed_at: null,
        price_per_hour_usd: 3.6,
        cost_usd: 1.27,
        failure: null,
        step: null,
        error: null,
        resumed_from: { job: "p1-moved", checkpoint: "step_400" },
        goes_on: false,
        work_lost_seconds: null,
        machines: ["m3"],
      }),
    ],
    waiting: null,
  };
  run.timeline.steps = [
    step("place", 3_600, 3_598, { placement: null }),
    step("provision", 3_598, 3_500, { status: "failed", error: { code: "no_offer", message: "sold out", hint: "" } }),
    step("terminate", 3_500, 3_499),
    step("place", 3_499, 3_400, { placement: null }),
    step("provision", 3_400, 3_350, { placement: 2 }),
    step("stream", 3_200, 1_600, { placement: 2, status: "failed" }),
    step("terminate", 1_600, 1_500, { placement: 2 }),
    step("place", 1_500, 1_400, { placement: null }),
    step("provision", 1_400, 1_350, { placement: 3 }),
    step("stream", 1_200, null, { placement: 3 }),
  ];
  run.log = Buffer.from("epoch 1\nsvc: placement 3 on market H100:2 continues from step_400\nepoch 2\n");
  const waiting = fakeRun("p2-waiting", 900, {
    label: "needs eight H200",
    status: "waiting",
    exit_code: null,
    started_at: null,
    ended_at: null,
    provider: "podhost",
    gpus: "H200:8",
    placements: 0,
    price_per_hour_usd: null,
    note: {
      kind: "waiting_for_capacity",
      message: "2 candidates tried, next search at 14:05. podhost H200:8: sold out.",
    },
  });
  waiting.placements = {
    placements: [],
    waiting: {
      since: ago(900),
      until: new Date(Date.now() + 3_600_000).toISOString(),
      next_at: new Date(Date.now() + 40_000).toISOString(),
      limit: null,
      tried: [
        { candidate: 0, provider: "podhost", gpus: "H200:8", why: `sold out ${HOSTILE}` },
        {
          candidate: 1,
          provider: "market",
          gpus: "H100:8",
          why: "the cheapest costs $31.20/h, above the cap of $25.00/h",
        },
      ],
    },
  };
  waiting.timeline.steps = [step("place", 900, null, { placement: null })];
  world.runs.push(run, waiting);
  return world;
}

describe("placements", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const looks = [
    { width: 1440, height: 1_000, colorScheme: "light" as const },
    { width: 390, height: 840, colorScheme: "dark" as const },
  ];
  const onEach = async (name: string, path: string, use: (opened: Opened) => Promise<void>) => {
    for (const { colorScheme, ...viewport } of looks) {
      const opened = await board.open(path, { viewport, colorScheme }, moved());
      await soundly(opened, use, `${name}-${viewport.width}-${colorScheme}`);
    }
  };

  it("A run that used several machines shows each with where, why it ended, its cost, and what was lost and saved", () =>
    onEach("run", "/runs/p1-moved", async ({ page }) => {
      const panel = page.getByRole("region", { name: "Placements" });
      const rows = panel.locator(".placement");
      await rows.nth(2).waitFor(WAIT);
      expect(await rows.nth(0).textContent()).toMatch(/podhost A100no machine.*no cost.*podhost has no machine/);
      const second = (await rows.nth(1).textContent()) ?? "";
      for (const words of [
        "market H100:2, EU, spot preferred",
        "preempted",
        "$1.20/h · $0.63",
        "lost 4 min 0 s of work ($0.08) · saved $1.26 by spot",
      ])
        expect(second).toContain(words);
      expect(await rows.nth(2).textContent()).toContain("continued from step_400");
      // Each placement has its own lane of steps, and each search between them.
      const heads = await page.locator(".step-node").allTextContents();
      expect(heads.map((head) => head.split(" · ")[0])).toEqual([
        "Search for a machine",
        "Placement 1",
        "Search for a machine",
        "Placement 2",
        "Search for a machine",
        "Placement 3",
      ]);
      // The same attempt of two placements is two things.
      await page.getByRole("button", { name: "Get machine", exact: true }).nth(1).click();
      expect(new URL(page.url()).searchParams.get("step")).toBe("provision.0.1.p2");
    }));

  it("The log marks the line at which the next machine's output begins", () =>
    onEach("log", "/runs/p1-moved?tab=logs", async ({ page }) => {
      await page.locator(".log-row-seam >> text=continues from step_400").waitFor(WAIT);
      expect(await page.locator(".log-row-seam").count()).toBe(1);
    }));

  it("A run that waits says since when, what each candidate answered, and when svc asks again", () =>
    onEach("waiting", "/runs/p2-waiting", async ({ page }) => {
      const panel = page.getByRole("region", { name: "Waiting for a machine" });
      await panel.getByText("above the cap of $25.00/h").waitFor(WAIT);
      expect(await panel.textContent()).toMatch(/next look.*gives up.*nothing is billed/);
      await page.locator(".pill-waiting >> text=waiting").waitFor(WAIT);
    }));

  it("The list shows a waiting run with its reason, and can be filtered by it", () =>
    onEach("list", "/?status=waiting", async ({ page }) => {
      await page.getByText("2 candidates tried, next search at 14:05").waitFor(WAIT);
      expect(await page.locator(".run-link").count()).toBe(1);
    }));

  it("A new run's candidates can be added, ordered and removed, and the plan shows the turn of each", () =>
    onEach("new", "/new?entrypoint=train.py&provider=podhost&gpus=A100", async (opened) => {
      const { page, server } = opened;
      await page.getByText("If a machine is lost or none is free").click();
      const add = page.getByRole("button", { name: "Add a machine" });
      for (let i = 0; i < 3; i++) await add.click();
      const row = (n: number) => page.getByRole("group", { name: `Candidate ${n}` });
      await row(2).getByLabel("Provider").selectOption("market");
      await row(2).getByLabel("GPUs").fill("H100:2");
      // Key by key, as a person types: `2.` on the way is a number, too.
      await row(2).getByLabel("Price cap").pressSequentially("2.5");
      await row(2).getByLabel("Spot").selectOption("prefer");
      await page.getByRole("button", { name: "Remove candidate 3" }).click();
      await page.getByRole("button", { name: "Try candidate 2 earlier" }).click();
      await page.getByLabel("Choose").selectOption("cheapest");
      await page.getByLabel("Retry").fill("max=3\non=machine_lost, exit:75");
      const table = page.getByRole("region", { name: "Table of candidates" });
      await table.getByText("market H100:2").waitFor(WAIT);
      await table.getByText("has no machine with H100:2 right now").waitFor(WAIT);
      expect(await table.textContent()).toMatch(/1podhost cpu.*starts in about 1 min 34 s \(7 runs\)/);
      await takePicture(page, `form-${page.viewportSize()?.width ?? 0}`);
      // The candidates are rented whatever the provider of the run is, so their limits stay in view.
      await page.getByLabel("Provider", { exact: true }).first().selectOption("local");
      await page.getByLabel("Budget").waitFor(WAIT);
      await page.getByText("Costs money from the moment the machine is created.").waitFor(WAIT);
      await page.getByLabel("Provider", { exact: true }).first().selectOption("podhost");
      await page.getByRole("button", { name: /^Start run/ }).click();
      await page.waitForURL("**/runs/**");
      await page.locator("h1.run-title").waitFor(WAIT);
      const sent = server.seen.find((each) => each.path === "/jobs" && each.method === "POST");
      expect((sent?.body as { spec: object } | undefined)?.spec).toMatchObject({
        candidates: [{ provider: "market", gpus: "H100:2", price_cap: 2.5, spot: "prefer" }, { provider: "podhost" }],
        choose: "cheapest",
        retry: { max: 3, on: ["machine_lost", "exit:75"] },
      });
    }));
});
