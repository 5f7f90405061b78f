// A run that waits for a machine, in a real browser, with the control plane that users start and simulated providers that have none: the
// page says what was tried and when svc looks next, and a kill from the page ends the run at once.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobRecord } from "../../src/schemas/job.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { browserForServe, expectAccessible } from "./browser.ts";
import { startSvc, type SvcProcess } from "./svc-process.ts";

const WAIT = { timeout: DEADLINE_MS };
/** The providers offer nothing for as long as any test may last. */
const SCARCE_SECONDS = "100000";
const CANDIDATES = [
  { provider: "market", gpus: "RTX4090", price_cap: 2 },
  { provider: "podhost", gpus: "A40", price_cap: 2 },
  { provider: "podhost", gpus: "RTX4090", price_cap: 2 },
];

describe("a run that waits for a machine", { tags: ["needs/chromium", "needs/sshd"] }, () => {
  const browser = browserForServe();
  let folder: string;
  let sim: SvcProcess;
  let served: SvcProcess;
  const url = () => String(served.said["url"]);
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "svc-waits-"));
    mkdirSync(join(folder, "project"));
    writeFileSync(join(folder, "project", "train.py"), "print(1)\n");
    sim = await startSvc(["sim", "market", "podhost", "--json", "--scarce", SCARCE_SECONDS], {}, folder);
    const env = { ...(sim.said["env"] as Record<string, string>), SVC_HOME: join(folder, "home") };
    served = await startSvc(["serve", "--port", "0", "--json"], env, join(folder, "project"));
  });
  afterAll(async () => {
    await served?.end();
    await sim?.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const submitted = async (label: string): Promise<string> => {
    const spec = { entrypoint: "train.py", candidates: CANDIDATES, wait_for_capacity_minutes: 60 };
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url()}/jobs`, { method: "POST", headers, body: JSON.stringify({ spec, label }) });
    expect(answer.status, await answer.clone().text()).toBe(201);
    return ((await answer.json()) as { id: string }).id;
  };
  const record = async (id: string): Promise<JobRecord> =>
    (await (await fetch(`${url()}/jobs/${id}`)).json()) as JobRecord;

  it.each([
    { width: 1440, height: 900 },
    { width: 390, height: 840 },
  ])("says what was tried and when svc looks next, and ends at once by the page, at $width px", async (viewport) => {
    const id = await submitted(`waits at ${viewport.width}`);
    const visitor = await browser.visit(`${url()}/?status=waiting`, { viewport });
    const { page } = visitor;
    try {
      page.setDefaultTimeout(WAIT.timeout);
      await page.waitForSelector(".connection-live", WAIT);
      // Without a reload: no event tells of a look that found nothing.
      await page.getByText(/3 candidates tried, next search at \d\d:\d\d/).waitFor(WAIT);
      await page.locator(`#run-${id}`).click();
      await page.waitForURL(`**/runs/${id}`, WAIT);
      const panel = page.getByRole("region", { name: "Waiting for a machine" });
      await panel.getByText("next look").waitFor(WAIT);
      await panel.getByText("No machine exists and nothing is billed.").waitFor(WAIT);
      const rows = panel.getByRole("table").getByRole("row");
      expect(await rows.count()).toBe(1 + CANDIDATES.length);
      for (const [i, { provider, gpus }] of CANDIDATES.entries()) {
        const words = (await rows.nth(i + 1).textContent()) ?? "";
        expect(words).toContain(provider);
        expect(words).toContain(gpus);
        // The reason.
        expect(words.length).toBeGreaterThan(provider.length + gpus.length + 10);
      }
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
      await expectAccessible(page);

      await page.getByRole("button", { name: /^Kill/ }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Kill run" }).click();
      await expect.poll(async () => (await record(id)).status, WAIT).toBe("cancelled");
      await page.getByText("cancelled").first().waitFor(WAIT);
      await panel.waitFor({ state: "detached" });
      const ended = await record(id);
      expect([ended.machines, ended.cost_usd]).toEqual([[], 0]);
      expect(await visitor.complaints()).toEqual([]);
    } finally {
      await visitor.close();
    }
  });
});
