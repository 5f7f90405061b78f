// The page of a run against a real `svc serve`, with a real run that writes, logs metrics and leaves checkpoints.

import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { Place, type Served } from "../process/harness.ts";
import { browserForServe, expectAccessible, type Visitor } from "./browser.ts";

const WAIT = { timeout: DEADLINE_MS };
// It continues on request: the test depends on no speed.
const SCRIPT = `import pathlib, sys, time, svc
gate = pathlib.Path(sys.argv[1])
out = pathlib.Path(svc.checkpoint_dir())
for i in range(50):
    svc.log({"train/loss": 1 / (i + 1), "train/accuracy": i / 50}, step=i)
    print(f"\\x1b[32mstep\\x1b[0m {i} <b>bold</b>", flush=True)
(out / "step-000050").mkdir(parents=True)
(out / "step-000050" / "model.bin").write_bytes(b"weights" * 1000)
svc.checkpoint(out / "step-000050")
while not gate.exists():
    time.sleep(0.05)
svc.log({"train/loss": 0.125}, step=50)
print("the gate is open", flush=True)
`;

describe("the page of a real run", { tags: "needs/chromium" }, () => {
  const browser = browserForServe();
  let place: Place;
  let served: Served;
  let id: string;
  beforeAll(async () => {
    place = new Place();
    place.file("train.py", SCRIPT);
    served = await place.serve();
    id = await served.submit({
      entrypoint: "train.py",
      args: [join(place.root, "gate")],
      env: { API_TOKEN: "hunter2x" },
    });
  });
  afterAll(async () => {
    await place.close();
  });

  const visiting = async (where: string, use: (visitor: Visitor) => Promise<void>) => {
    const visitor = await browser.visit(`${served.url}/runs/${id}${where}`, { viewport: { width: 1440, height: 900 } });
    visitor.page.setDefaultTimeout(WAIT.timeout);
    try {
      await visitor.page.waitForSelector(".connection-live", WAIT);
      await use(visitor);
      await expectAccessible(visitor.page);
      expect(await visitor.complaints()).toEqual([]);
    } finally {
      await visitor.close();
    }
  };

  it("shows log, metrics and checkpoints during the run, and later ones without reloading", () =>
    visiting("", async ({ page }) => {
      await page.locator(".log-row:has-text('step 49 <b>bold</b>')").waitFor(WAIT);
      await page.locator(".step-running:has-text('Run')").waitFor(WAIT);
      const setUp = page.getByRole("button", { name: "Set-up", exact: true });
      await expect.poll(() => page.locator(".steps .step-name").allTextContents(), WAIT).not.toContain("Copy code");
      await setUp.click();
      await page.getByRole("button", { name: "Copy code", exact: true }).waitFor(WAIT);
      await setUp.click();
      await page.getByRole("link", { name: "Metrics", exact: true }).click();
      await page.getByRole("img", { name: /^train\/loss: last 0.02 at step 49/ }).waitFor(WAIT);
      await page.getByRole("link", { name: "Checkpoints", exact: true }).click();
      await page.getByRole("link", { name: "step-000050/model.bin" }).waitFor(WAIT);
      await expect.poll(() => page.locator("[data-tab=checkpoints] .tab-count").textContent(), WAIT).toBe("1");
      await page.getByRole("link", { name: "Metrics", exact: true }).click();
      place.file("../gate", "");
      await page.getByRole("img", { name: /^train\/loss: last 0.125 at step 50/ }).waitFor(WAIT);
      await page.locator(".run-head .pill:has-text('succeeded')").waitFor(WAIT);
      await page.getByRole("link", { name: "Logs", exact: true }).click();
      await page.locator(".log-row:has-text('the gate is open')").waitFor(WAIT);
    }));

  it("finds a line, opens a step, replays the journal, and returns the files byte for byte", async () => {
    await served.ended(id);
    await visiting("?tab=logs&q=STEP%2031", async ({ page }) => {
      await page.locator(".log-search-none").waitFor(WAIT);
      await page.getByLabel("Search the whole log").fill("step 31");
      await page.locator(".log-picked:has-text('step 31')").waitFor(WAIT);
    });
    await visiting("?step=provision.0.1", async ({ page }) => {
      await page.locator(".step-detail:has-text('Get machine, attempt 1')").waitFor(WAIT);
      const slider = page.getByLabel("Time in the run");
      await slider.focus();
      await page.keyboard.press("Home");
      await page.locator(".moment:has-text('provisioning')").waitFor(WAIT);
      await page.keyboard.press("End");
      await page.locator(".moment:has-text('terminal')").waitFor(WAIT);
    });
    await visiting("?tab=events", ({ page }) => page.getByText("→ terminal").waitFor(WAIT));
    await visiting("?tab=code", ({ page }) => page.locator(".code-text:has-text('the gate is open')").waitFor(WAIT));
    place.file("train.py", SCRIPT.replace("range(50)", "range(60)"));
    await visiting("?tab=code", async ({ page }) => {
      await page.getByLabel(/^Compare the code/).selectOption("the project directory in its present state");
      await page.locator(".diff-added:has-text('range(60)')").waitFor(WAIT);
      place.file("train.py", SCRIPT);
      await page.getByRole("button", { name: "Compare again" }).click();
      await page.getByText("The code is the same.").waitFor(WAIT);
    });
    await visiting("?tab=spec", async ({ page }) => {
      await page.getByText("API_TOKEN").first().waitFor(WAIT);
      expect(await page.locator("main").textContent()).not.toContain("hunter2x");
    });
    const weights = Buffer.from("weights".repeat(1000));
    await visiting("?tab=checkpoints", async ({ page }) => {
      await page.getByRole("button", { name: "Compute the SHA-256 of step-000050/model.bin" }).click();
      await page.getByText(createHash("sha256").update(weights).digest("hex")).waitFor(WAIT);
      const coming = page.waitForEvent("download", WAIT);
      await page.getByRole("link", { name: "Download all, .tar" }).click();
      const folder = mkdtempSync(join(tmpdir(), "svc-tar-"));
      try {
        await (await coming).saveAs(join(folder, "all.tar"));
        execFileSync("tar", ["-xf", "all.tar"], { cwd: folder });
        expect(readFileSync(join(folder, "step-000050", "model.bin")).equals(weights)).toBe(true);
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  });
});
