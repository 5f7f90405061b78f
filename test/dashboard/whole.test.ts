// The dashboard with the control plane that users start: a separate home, `svc serve`, and a run from the form.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { browserForServe, expectAccessible, type Visitor } from "./browser.ts";
import { startSvc, type SvcProcess } from "./svc-process.ts";

const WAIT = { timeout: DEADLINE_MS };
const SCRIPT = `import time
for i in range(100_000):
    print("tick", i, flush=True)
    time.sleep(0.05)
`;

describe("the dashboard of a real control plane", { tags: "needs/chromium" }, () => {
  const browser = browserForServe();
  let folder: string;
  let served: SvcProcess;
  const url = () => String(served.said["url"]);
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "svc-whole-"));
    const project = join(folder, "project");
    mkdirSync(project);
    writeFileSync(join(project, "train.py"), SCRIPT);
    served = await startSvc(["serve", "--port", "0", "--json"], { SVC_HOME: join(folder, "home") }, project);
  });
  afterAll(async () => {
    await served.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const visiting = async (path: string, use: (visitor: Visitor) => Promise<void>) => {
    const visitor = await browser.visit(url() + path, { viewport: { width: 1440, height: 900 } });
    try {
      await visitor.page.waitForSelector(".connection-live", WAIT);
      await use(visitor);
      await expectAccessible(visitor.page);
      expect(await visitor.complaints()).toEqual([]);
    } finally {
      await visitor.close();
    }
  };

  it("starts a run by the form, shows its log as it arrives, kills it and lists it", () =>
    visiting("/", async ({ page }) => {
      await page.getByRole("button", { name: "Run the digits example here" }).waitFor(WAIT);
      await page.getByRole("link", { name: "New run" }).click();
      await page.getByLabel("Entrypoint").fill("train.py");
      await page.getByLabel("Label").fill("by the form");
      const plan = page.getByRole("region", { name: "Cost preview" });
      await plan.getByText("1 file").waitFor(WAIT);
      await page.getByRole("button", { name: "Start run" }).click();
      await page.waitForURL("**/runs/*", WAIT);
      const id = page.url().split("/").at(-1) ?? "";
      await page.getByText("tick 20", { exact: true }).waitFor(WAIT);
      await page.goto(`${url()}/?status=active`);
      await page.getByRole("button", { name: `Kill by the form ${id}` }).click(WAIT);
      await page.getByRole("dialog").getByRole("button", { name: "Kill run" }).click(WAIT);
      await page.goto(`${url()}/?status=cancelled&q=form`);
      await page.locator(`#run-${id}`).waitFor(WAIT);
    }));

  it("leads from a refusal to the remedy", () =>
    visiting("/new?entrypoint=missing.py", async ({ page }) => {
      await page.getByText("This run would be refused").waitFor(WAIT);
      await page.getByText("There is no file missing.py").first().waitFor(WAIT);
    }));

  for (const [path, ready] of [
    ["/machines", "No machine costs money"],
    ["/costs", /No machine was rented in this time|Days begin at midnight/],
    ["/connect?open=market", "In the marketplace’s console"],
    ["/connect/notebook", "The cell"],
    ["/connect?open=notify-new", "Save and send a test"],
    ["/notifications", "What happened"],
    ["/gpus", "H200"],
    ["/models", "None yet."],
    ["/data", "There is no data set yet."],
  ] as const)
    it(`shows ${path} of a fresh home under the server's own content policy`, () =>
      visiting(path, async ({ page }) => {
        await page.getByText(ready).first().waitFor(WAIT);
      }));
});
