import { describe, expect, it } from "vitest";
import { dashboard, hasChromium, type Opened } from "./browser.ts";
import { fakeRun } from "./fake-world.ts";

const WAIT = { timeout: 30_000 };
const [WIDTH, HEIGHT] = [390, 844];

describe.skipIf(!hasChromium)("the dashboard on a phone", { timeout: 60_000 }, () => {
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

  it("gives most of the screen to the part of a run that one looks at", async () => {
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
});
