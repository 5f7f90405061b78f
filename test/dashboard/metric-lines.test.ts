import { describe, expect, it } from "vitest";
import { apart, meanOf } from "../../dashboard/src/run/metrics/lines.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectSound, LOOKS } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, HOSTILE } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
const curve = (rank: number, x: number[], y: number[]) => ({ rank, attempt: 1, attempts: 1, x, y });

describe("many ranks", () => {
  it("are a mean and a range at each step that any of them has logged", () => {
    const { x, y, range } = meanOf([curve(0, [1, 2], [2, Number.NaN]), curve(1, [1, 3], [4, 7])]);
    expect([x, y]).toEqual([
      [1, 2, 3],
      [3, Number.NaN, 7],
    ]);
    expect(range).toEqual({ low: [2, Number.NaN, 7], high: [4, Number.NaN, 7] });
  });
});

describe("names of compared runs", () => {
  const names = (...labels: string[]) => apart(labels.map((label, i) => ({ id: `id-${i}abcd`, label, startMs: 0 })));
  it("keep what differs", () => {
    expect(names("resnet sweep 3/8 (many metrics)", "resnet sweep 4/8 (many metrics)")).toEqual([
      "…3/8 (many metrics)",
      "…4/8 (many metrics)",
    ]);
    expect(names("lr 0.1", "lr 0.3")).toEqual(["lr 0.1", "lr 0.3"]);
    expect(names("resnet sweep", "resnet sweep b")).toEqual(["resnet sweep", "resnet sweep b"]);
    expect(names("same", "same")).toEqual(["same (abcd)", "same (abcd)"]);
    expect(names("only one very long name")).toEqual(["only one very long name"]);
  });
});

function manyRanks(): FakeWorld {
  const run = fakeRun("ranks", 60, { label: "eight ranks" });
  const points = (rank: number, shift: number) =>
    Array.from({ length: 40 }, (_, step) => ({
      step,
      time: 1_700_000_000 + step,
      value: shift + 1 / (step + 1),
      rank,
    }));
  run.metrics = {
    loss: Array.from({ length: 8 }, (_, rank) => points(rank, rank / 8)).flat(),
    "val/loss": points(0, 3),
    ...Object.fromEntries(
      Array.from({ length: 500 }, (_, i) => [
        `layers/${Math.floor(i / 50)}/w${i}`,
        [{ step: 0, time: 1, value: i, rank: 0 }],
      ]),
    ),
    [HOSTILE]: points(0, 1),
  };
  return { runs: [run], machines: [], providers: [] };
}

describe("the charts of a run", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const full = encodeURIComponent(`loss\nval/loss\n${HOSTILE}`);
  it.each(LOOKS)(
    "show several metrics together over the whole width at $width pixels in $colorScheme",
    async (look) => {
      const { width, colorScheme } = look;
      const path = `/runs/ranks?tab=metrics&full=${full}&y=0~2&pin=loss`;
      const opened = await board.open(path, { viewport: { width, height: 900 }, colorScheme }, manyRanks());
      const { page } = opened;
      try {
        await page.locator(".full-chart canvas").waitFor(WAIT);
        await expect.poll(() => page.locator("figure.chart").count(), WAIT).toBe(1);
        await expect.poll(() => page.locator(".legend li").allTextContents(), WAIT).toHaveLength(3);
        expect((await page.locator(".full-chart canvas").boundingBox())?.height).toBeGreaterThan(250);
        await expectSound(opened);
      } finally {
        await opened.close();
      }
    },
  );

  it("draw eight ranks as a mean with its range, pin a chart, and group 500 metrics by the parts of their names", async () => {
    const opened = await board.open("/runs/ranks?tab=metrics", { viewport: { width: 1440, height: 900 } }, manyRanks());
    const { page } = opened;
    try {
      const legend = page.locator(".legend").first();
      await expect.poll(() => legend.innerText(), WAIT).toContain("mean of 8 ranks, and their range");
      await page.getByLabel("Ranks").selectOption("each");
      await expect.poll(() => legend.locator("li").count(), WAIT).toBe(8);
      await expect.poll(() => page.locator(".group-parts > details").count(), WAIT).toBe(10);
      await page.getByRole("button", { name: "Pin loss" }).click();
      await page.locator("summary", { hasText: "Pinned" }).waitFor(WAIT);
      expect(new URL(page.url()).searchParams.getAll("pin")).toEqual(["loss"]);
      await page.getByRole("button", { name: "Unpin loss" }).first().click();
      await expect.poll(() => page.locator("summary", { hasText: "Pinned" }).count(), WAIT).toBe(0);
      await page.getByRole("button", { name: "Open loss over the whole width" }).click();
      await page.getByLabel("Least value").fill("-1");
      await page.getByLabel("Greatest value").fill("5");
      await page.getByRole("button", { name: "Set", exact: true }).click();
      await expect.poll(() => new URL(page.url()).searchParams.get("y"), WAIT).toBe("-1~5");
      await page.getByRole("button", { name: "All charts" }).click();
      await expect.poll(() => page.locator(".full-chart").count(), WAIT).toBe(0);
      await expectSound(opened);
    } finally {
      await opened.close();
    }
  });
});
