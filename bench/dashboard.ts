// The dashboard in Chromium, over a real `svc serve`: the time until content appears, and whether it scrolls smoothly.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fillPast } from "../scripts/lib/shown-world.ts";
import { framesOf, paintedAfter, withBrowser, withPage } from "./lib/browser.ts";
import { withFolder } from "./lib/home.ts";
import { quantile, rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served } from "./lib/served.ts";

const RUNS = 20_000;
const FEW = 50;
const ROUNDS = 7;
const FRAMES = 240;

/** Calls `use` with the address of a control plane whose home has so many ended runs. */
async function withRuns<T>(count: number, use: (url: string) => Promise<T>): Promise<T> {
  return withFolder(async (folder) => {
    const home = join(folder, "home");
    const project = join(folder, "project");
    mkdirSync(project);
    await fillPast(home, count);
    const served = await Served.start(home, project);
    try {
      return await use(served.url);
    } finally {
      await served.stop();
    }
  });
}

async function listOfRuns(): Promise<Row[]> {
  return withBrowser((browser) =>
    withRuns(RUNS, (url) =>
      withRuns(FEW, async (plainUrl) => {
        const painted: number[] = [];
        const plain: number[] = [];
        const p95: number[] = [];
        for (let round = 0; round <= ROUNDS; round++) {
          const few = await withPage(browser, (page) => paintedAfter(page, plainUrl, ".run-link"));
          const [many, frame] = await withPage(browser, async (page) => {
            const ms = await paintedAfter(page, url, ".run-link");
            const gaps = await framesOf(page, FRAMES, { px: 180 });
            return [ms, quantile(gaps, 0.95)];
          });
          if (round === 0) continue; // the browser's own first start
          plain.push(few);
          painted.push(many ?? Number.NaN);
          p95.push(frame ?? Number.NaN);
        }
        return [
          rowOf({
            what: "dashboard, 20,000 runs, first rows painted",
            unit: "ms",
            values: painted,
            baseline: plain,
            target: `<= 1.5x of ${FEW} runs`,
            met: (f, b) => f <= 1.5 * b,
          }),
          rowOf({
            what: "scrolling that list 180 px a frame, pages read meanwhile, p95 frame",
            unit: "ms",
            values: p95,
            target: "< 34 ms",
            met: (f) => f < 34,
          }),
        ];
      }),
    ),
  );
}

export const dashboard: Bench = {
  name: "dashboard",
  about: "the dashboard with 20,000 runs, in Chromium",
  measure: listOfRuns,
};
