// What people do to a page that they keep open: hundreds of selected runs, two tabs that both act, a browser that slept, one endless line.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fillPast } from "../../scripts/lib/shown-world.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { browserForServe, expectSound, type Visitor } from "./browser.ts";
import { startSvc, type SvcProcess } from "./svc-process.ts";

const WAIT = { timeout: DEADLINE_MS };
const PAST = 260;
const LINE_MB = 300;
const WAITS = `import time
print("it runs", flush=True)
time.sleep(100_000)
`;
const ONE_LINE = `import sys
for _ in range(${LINE_MB}):
    sys.stdout.write("0123456789abcdef" * 65_536)
print()
print("after the endless line", flush=True)
`;

describe("a page under hard use", { tags: "needs/chromium" }, () => {
  const browser = browserForServe();
  let folder: string;
  let served: SvcProcess;
  const url = (path: string) => `${String(served.said["url"])}${path}`;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "svc-hard-"));
    const project = join(folder, "project");
    mkdirSync(project);
    writeFileSync(join(project, "waits.py"), WAITS);
    writeFileSync(join(project, "one-line.py"), ONE_LINE);
    await fillPast(join(folder, "home"), PAST);
    served = await startSvc(["serve", "--port", "0", "--json"], { SVC_HOME: join(folder, "home") }, project);
  });
  afterAll(async () => {
    await served.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const visit = async (path: string): Promise<Visitor> => {
    const visitor = await browser.visit(url(path), { viewport: { width: 1440, height: 900 } });
    await visitor.page.waitForSelector(".connection-live", WAIT);
    return visitor;
  };
  const close = async (visitor: Visitor): Promise<void> => {
    try {
      await expectSound(visitor);
    } finally {
      await visitor.close();
    }
  };
  const started = async (entrypoint: string): Promise<string> => {
    const answer = await fetch(url("/jobs"), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ spec: { provider: "local", entrypoint, install: "none" } }),
    });
    expect(answer.status).toBe(201);
    return ((await answer.json()) as { id: string }).id;
  };
  const runs = async (): Promise<number> =>
    ((await (await fetch(url("/v1/summary"))).json()) as { total: number }).total;

  it("Selects the runs between two clicks, says how many can be compared, and deletes hundreds of runs", async () => {
    const visitor = await visit("/");
    const { page } = visitor;
    const bar = page.getByRole("region", { name: "Selected runs" });
    const boxes = page.locator("tbody .cell-select input");
    await boxes.nth(1).click(WAIT);
    await boxes.nth(9).click({ modifiers: ["Shift"] });
    await bar.getByText("9 runs").waitFor(WAIT);
    await bar.getByText("up to 8 can be compared").waitFor(WAIT);
    await boxes.nth(9).click();
    await bar.getByRole("link", { name: "Compare" }).waitFor(WAIT);
    // The list reads further pages as it is scrolled.
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, 20_000);
        return Number(await page.locator("table.runs").getAttribute("aria-rowcount"));
      })
      .toBe(PAST + 1);
    await page.getByLabel("Select all runs that are loaded").check();
    await bar.getByText(`${PAST} runs`).waitFor(WAIT);
    await page.getByLabel("Select all runs that are loaded").scrollIntoViewIfNeeded();
    await page.locator("tbody .cell-select input").nth(0).click();
    await bar.getByText(`${PAST - 1} runs`).waitFor(WAIT);
    await bar.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("button", { name: `Delete ${PAST - 1} runs` }).click();
    await page.getByRole("dialog").waitFor({ state: "detached", ...WAIT });
    await expect.poll(runs).toBe(1);
    await close(visitor);
  });

  it("Two tabs that both kill a run agree, and neither shows an error", async () => {
    const id = await started("waits.py");
    const [one, other] = [await visit(`/runs/${id}`), await visit(`/runs/${id}`)];
    for (const { page } of [one, other]) {
      await page.getByText("it runs", { exact: true }).waitFor(WAIT);
      await page.getByRole("button", { name: "Kill", exact: true }).first().click();
    }
    await one.page.getByRole("dialog").getByRole("button", { name: "Kill run" }).click();
    await one.page.locator(".pill", { hasText: "cancelled" }).first().waitFor(WAIT);
    // The dialog may replace or lose a button at any moment, so the page itself looks for it and clicks.
    const clickIfThere = (name: string) =>
      other.page
        .getByRole("dialog")
        .getByRole("button", { name, exact: true })
        .evaluateAll((buttons: HTMLElement[]) => buttons.forEach((button) => button.click()));
    await clickIfThere("Kill run");
    await other.page.locator(".pill", { hasText: "cancelled" }).first().waitFor(WAIT);
    const told = other.page.getByRole("dialog").getByText("It ended while this dialog was open: cancelled.");
    await told.or(other.page.locator("body:not(:has([role=dialog]))")).first().waitFor(WAIT);
    await clickIfThere("Close");
    await other.page.getByRole("dialog").waitFor({ state: "detached", ...WAIT });
    expect(await other.page.getByRole("alert").count()).toBe(0);
    await close(one);
    await close(other);
  });

  it("Shows after a day of sleep what happened meanwhile, though its connection looks open", async () => {
    const id = await started("waits.py");
    const visitor = await visit("/");
    const { page } = visitor;
    let asleep = false;
    await page.routeWebSocket("**/v1/events**", (socket) => {
      const [server, isOld] = [socket.connectToServer(), !asleep];
      // Connections from before the sleep die in it, and neither end is told.
      server.onMessage((message) => void ((asleep && isOld) || socket.send(message)));
      socket.onMessage((message) => void ((asleep && isOld) || server.send(message)));
    });
    await page.goto(url(`/runs/${id}`));
    await page.getByText("it runs", { exact: true }).waitFor(WAIT);
    await page.waitForSelector(".connection-live", WAIT);
    asleep = true;
    const killed = await fetch(url(`/jobs/${id}/kill`), { method: "POST" });
    expect(killed.status).toBeLessThan(300);
    const status = async (): Promise<string> =>
      ((await (await fetch(url(`/jobs/${id}`))).json()) as { status: string }).status;
    await expect.poll(status).toBe("cancelled");
    expect(await page.locator(".pill", { hasText: "cancelled" }).count()).toBe(0);
    await page.clock.setSystemTime(Date.now() + 24 * 3_600_000);
    await page.locator(".pill", { hasText: "cancelled" }).first().waitFor(WAIT);
    await close(visitor);
  });

  it(`Shows the lines around one of ${LINE_MB} MB`, async () => {
    const id = await started("one-line.py");
    const visitor = await visit(`/runs/${id}?tab=logs`);
    await visitor.page.getByText("after the endless line", { exact: true }).waitFor(WAIT);
    const heap = await visitor.page.evaluate(
      () => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize,
    );
    expect(heap).toBeLessThan(200e6);
    await close(visitor);
  });
});
