import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, type Opened } from "./browser.ts";
import { fakeRun } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
const [WIDTH, HEIGHT] = [390, 844];

describe("the dashboard on a small screen", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withPhone = async (
    path: string,
    use: (opened: Opened) => Promise<void>,
    world?: Parameters<typeof board.open>[2],
  ) => {
    const opened = await board.open(
      path,
      { viewport: { width: WIDTH, height: HEIGHT }, hasTouch: true, isMobile: true },
      world,
    );
    opened.page.setDefaultTimeout(WAIT.timeout);
    try {
      await opened.page.waitForSelector(".connection-live");
      await use(opened);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  };
  const box = async (opened: Opened, selector: string) => {
    const found = await opened.page.locator(selector).boundingBox();
    if (!found) throw new Error(`${selector} has no place`);
    return { ...found, right: found.x + found.width, bottom: found.y + found.height };
  };

  it("opens its menus within the screen", () =>
    withPhone("/runs/r1-digits", async (opened) => {
      for (const menu of [".settings", ".downloads", ".money"]) {
        await opened.page.locator(`${menu} > summary`).tap();
        const { x, right } = await box(opened, `${menu} > :not(summary)`);
        expect([menu, x >= 0, right <= WIDTH]).toEqual([menu, true, true]);
        await opened.page.keyboard.press("Escape");
      }
    }));

  it("keeps the list still when a run appears above, after any scrolling", async () => {
    const runs = Array.from({ length: 40 }, (_, i) => fakeRun(`m${i}`, 1_000 + i, { label: `old ${i}` }));
    await withPhone(
      "/",
      async ({ page, server }) => {
        await page.waitForSelector("text=old 5");
        const place = () => page.locator("#run-m4").evaluate((e) => Math.round(e.getBoundingClientRect().top));
        const at = await place();
        for (const [i, far] of [0, 40, 300].entries()) {
          await page.evaluate((y) => scrollTo(0, y), far);
          const before = await place();
          server.world.runs.push(fakeRun(`n${i}`, 10 - i, { label: `fresh ${i}` }));
          server.emit("job.created", `n${i}`);
          await page.waitForSelector(`text=fresh ${i}`, { state: "attached" });
          expect([far, (await place()) - before]).toEqual([far, far === 0 ? 96 : 0]);
        }
        expect(await place()).toBeLessThan(at);
        await page.getByRole("button", { name: "new run" }).tap();
        await expect.poll(() => page.evaluate(() => scrollY), WAIT).toBe(0);
      },
      { runs, machines: [], providers: [] },
    );
  });

  for (const width of [721, 760, 821, 844, 961, 1100, 1141, 1221, 1271])
    it(`keeps names, prices and its buttons in sight at ${width} pixels`, async () => {
      const opened = await board.open("/", { viewport: { width, height: HEIGHT } });
      try {
        await opened.page.waitForSelector(".connection-live");
        await opened.page.waitForSelector(".money summary");
        expect((await box(opened, "#run-r1-digits")).width).toBeGreaterThan(120);
        expect((await box(opened, ".runs")).right).toBeLessThanOrEqual(width);
        expect((await box(opened, ".top .button.primary")).right).toBeLessThanOrEqual(width);
        expect((await box(opened, ".places a:last-child")).right).toBeLessThanOrEqual(
          (await box(opened, ".top-end")).x + (width < 760 ? 60 : 0),
        );
      } finally {
        await opened.close();
      }
    });

  for (const width of [360, 390, 412])
    it(`ends its menu before the edge at ${width} pixels`, async () => {
      const opened = await board.open("/", { viewport: { width, height: HEIGHT } });
      try {
        await opened.page.waitForSelector(".connection-live");
        expect((await box(opened, ".places a:last-child")).right).toBeLessThanOrEqual(width - 4);
      } finally {
        await opened.close();
      }
    });

  it("gives most of the screen to the viewed part of a run", async () => {
    const run = fakeRun("r-long", 600, {
      label: "a label that has quite a few words in it, and then some more of them",
      status: "running",
      ended_at: null,
      provider: "podhost",
      gpus: "H100:8",
      price_per_hour_usd: 23.92,
      cost_usd: 4,
      args: Array.from({ length: 40 }, (_, i) => `--option-${i}=some/long/path`),
    });
    const world = { runs: [run], machines: [], providers: [] };
    await withPhone(
      "/runs/r-long",
      async (opened) => {
        expect((await box(opened, ".fact-wide dd")).height).toBeLessThan(30);
        expect((await box(opened, ".tabs")).bottom).toBeLessThan(HEIGHT * 0.4);
        await opened.page.getByRole("link", { name: "Logs", exact: true }).tap();
        await opened.page.waitForSelector(".log-tall");
        expect((await box(opened, ".tabs")).bottom).toBeLessThan(HEIGHT * 0.33);
        expect((await box(opened, ".log-tall .log-view")).y).toBeLessThan(HEIGHT * 0.45);
      },
      world,
    );
  });

  it("keeps the costs within the screen and next to the logo, whatever their text", async () => {
    const machine = {
      name: "svc-a-0",
      id: "a",
      provider: "market",
      job_id: "r1",
      node: 0,
      state: "held",
      address: null,
      price_per_hour_usd: 123.45,
      cost_usd: 2.05,
      created_at: new Date().toISOString(),
      age_seconds: 60,
      note: null,
    } as const;
    const machines = [
      machine,
      { ...machine, name: "svc-b-0", provider: "cloudvm", price_per_hour_usd: null } as const,
      { ...machine, name: "svc-c-0", job_id: null } as const,
    ];
    await withPhone(
      "/",
      async (opened) => {
        const { page } = opened;
        await page.waitForSelector(".money summary");
        const look = async () => {
          const [money, brand, end] = [
            await box(opened, ".money"),
            await box(opened, ".brand"),
            await box(opened, ".top .button.primary"),
          ];
          expect(money.x).toBeGreaterThanOrEqual(brand.right);
          expect(end.right).toBeLessThanOrEqual(WIDTH);
          expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(WIDTH);
          expect(await page.locator(".money summary").innerText()).toContain("$123.45/h + ?");
        };
        await look();
        await page.evaluate(() => {
          const text = document.querySelector(".connection-text");
          if (text) text.textContent = "Offline since 12:34:56";
          text?.parentElement?.classList.replace("connection-live", "connection-offline");
        });
        await look();
      },
      { runs: [], machines, providers: [] },
    );
  });

  it("shows the red line about machines that no run needs on every page, before anything else of it", async () => {
    for (const path of ["/", "/runs/r1-digits", "/costs", "/notifications", "/connect"])
      await withPhone(path, async (opened) => {
        const line = opened.page.getByRole("alert").filter({ hasText: "may cost money and no run needs" });
        await line.getByText("svc-r5-ending-0").waitFor();
        const { x, right, bottom } = await box(opened, ".money-alarm");
        expect([path, x, right, bottom < HEIGHT / 3]).toEqual([path, 0, WIDTH, true]);
      });
  });

  it("keeps a credential's text within its card", () =>
    withPhone("/connect", async (opened) => {
      await opened.page.locator("#podhost .pill").waitFor();
      // The text is longest with two sources.
      await opened.page.evaluate(() => {
        const pill = document.querySelector("#podhost .pill");
        if (pill) pill.textContent = "connected, from the environment and by configure() and stored here";
      });
      const [card, pill] = [await box(opened, "#podhost"), await box(opened, "#podhost .pill")];
      expect(pill.x).toBeGreaterThan(card.x);
      expect(pill.right).toBeLessThan(card.right);
    }));
});
