// Words of a stranger that every JavaScript object answers to. A page that looked them up in a table would get a function.

import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectSound } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
const NAMES = ["__proto__", "constructor", "toString", "loss"];

function world(): FakeWorld {
  const runs = ["one", "two"].map((id, n) => {
    const args = n === 0 ? [] : ["--__proto__", "3", "--constructor=4"];
    const run = fakeRun(id, 60 + n, { label: `run ${id}`, args });
    run.metrics = Object.fromEntries(
      NAMES.map((name) => [name, [0, 1, 2].map((step) => ({ step, time: 1_700_000_000, value: step + n, rank: 0 }))]),
    );
    return run;
  });
  return { runs, machines: [], providers: [] };
}

const cols = ["last:__proto__", "arg:__proto__", "arg:constructor", "last:constructor"];

describe("metrics, arguments and addresses with the names of inherited members", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  it.each([
    ["the overview", "/runs/one", ".charts >> text=__proto__"],
    ["the metrics", "/runs/one?tab=metrics", "figure.chart >> text=constructor"],
    ["one metric over the whole width", `/runs/one?tab=metrics&full=${NAMES[0]}`, ".full-chart canvas"],
    ["two runs in comparison", "/runs/one?tab=metrics&with=two", "figure.chart >> text=toString"],
    ["columns of the list", `/?${cols.map((col) => `col=${col}`).join("&")}&sort=arg:constructor`, "text=run two"],
    ["a run that does not exist", "/runs/constructor", "text=This run cannot be shown"],
    ["another one", "/runs/__proto__", "text=This run cannot be shown"],
  ])("leave %s whole", async (_what, path, ready) => {
    const opened = await board.open(path, { viewport: { width: 1440, height: 900 } }, world());
    try {
      await opened.page.locator(ready).first().waitFor(WAIT);
      expect(await opened.page.locator("text=This page could not be shown").count()).toBe(0);
      // The browser complains of the 404 of a run that does not exist.
      if (!ready.includes("cannot be shown")) await expectSound(opened);
    } finally {
      await opened.close();
    }
  });
});
