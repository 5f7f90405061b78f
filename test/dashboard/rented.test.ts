// Renting through the dashboard alone: a key is entered and checked, a machine is rented, its cost appears, and it is
// released. The control plane is the one that users start; the provider is simulated, with machines that boot.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { browserForServe, expectAccessible, type Visitor } from "./browser.ts";
import { startSvc, type SvcProcess } from "./svc-process.ts";

const WAIT = { timeout: DEADLINE_MS };
/** Machines boot, and all processes may share one busy core. */
const TEST_MS = 240_000;
const SCRIPT = `import time
for i in range(100_000):
    print("tick", i, flush=True)
    time.sleep(0.05)
`;

describe("renting by the dashboard", { tags: ["needs/chromium", "needs/sshd"] }, () => {
  const browser = browserForServe();
  let folder: string;
  let sim: SvcProcess;
  let served: SvcProcess;
  let simEnv: Record<string, string>;
  const home = () => join(folder, "home");
  const stored = () => {
    const file = join(home(), "credentials.json");
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  };
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "svc-rented-"));
    mkdirSync(join(folder, "project"));
    writeFileSync(join(folder, "project", "train.py"), SCRIPT);
    sim = await startSvc(["sim", "market", "--json"], {}, folder);
    simEnv = sim.said["env"] as Record<string, string>;
    // The key is not in the environment: it is entered by hand.
    const env = { SVC_HOME: home(), SVC_MARKET_URL: simEnv["SVC_MARKET_URL"], MARKET_API_KEY: undefined };
    served = await startSvc(["serve", "--port", "0", "--json"], env, join(folder, "project"));
  });
  afterAll(async () => {
    await served?.end();
    await sim?.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const visiting = async (path: string, use: (visitor: Visitor) => Promise<void>, expected = /^$/) => {
    const visitor = await browser.visit(String(served.said["url"]) + path, { viewport: { width: 1440, height: 900 } });
    visitor.page.setDefaultTimeout(WAIT.timeout);
    try {
      await visitor.page.waitForSelector(".connection-live", WAIT);
      await use(visitor);
      await expectAccessible(visitor.page);
      expect((await visitor.complaints()).filter((each) => !expected.test(each))).toEqual([]);
    } finally {
      await visitor.close();
    }
  };

  it(
    "keeps no key that the provider refuses, and says that one works",
    () =>
      visiting(
        "/connect?open=market",
        async ({ page }) => {
          const card = page.locator("#market");
          await card.getByText("not connected").waitFor();
          await page.locator("#market-api_key").fill("sim-not-the-key");
          await card.getByRole("button", { name: "Check and save" }).click();
          await card.getByRole("alert").waitFor();
          expect(stored()).not.toContain("sim-not-the-key");
          expect(await card.textContent()).not.toContain("It works.");
          await page.locator("#market-api_key").fill(simEnv["MARKET_API_KEY"] ?? "");
          await page.locator("#market-ssh_key_path").fill(join(simEnv["SVC_HOME"] ?? "", "ssh", "id_ed25519"));
          await card.getByRole("button", { name: "Check and save" }).click();
          await card.getByText("Saved. It works.").waitFor();
          await card.getByText("connected, stored here").waitFor();
          expect(stored()).toContain(simEnv["MARKET_API_KEY"]);
          await card.getByRole("button", { name: "Check now" }).click();
          await card.getByText("It works.", { exact: true }).waitFor();
          expect(await page.content()).not.toContain(simEnv["MARKET_API_KEY"]);
        },
        // Refusals are answers here; the browser logs them to its console.
        /status of 4\d\d/,
      ),
    TEST_MS,
  );

  it(
    "rents the offer that the plan shows, says what is paid, and nothing is paid when it was killed",
    () =>
      visiting("/new?entrypoint=train.py&provider=market&gpus=RTX4090%3A1&price_cap=2", async ({ page }) => {
        await page.getByText("← this one").waitFor();
        await page.getByRole("button", { name: /^Start run, \$/ }).click();
        await page.waitForURL("**/runs/*", WAIT);
        await page.getByText("tick 3", { exact: true }).waitFor({ timeout: 120_000 });
        await page.locator(".money summary .roomy", { hasText: "/h" }).waitFor();
        await page.getByText(/^svc ssh /).waitFor();
        await page.getByRole("button", { name: "Kill", exact: true }).click();
        await page
          .getByRole("dialog")
          .getByText(/^Machine svc-.* at market, \$/)
          .waitFor();
        await page.getByRole("button", { name: "Kill run" }).click();
        await page.locator(".run-head .pill:has-text('cancelled')").waitFor({ timeout: 120_000 });
        await page.getByRole("link", { name: "Machines", exact: true }).click();
        await page.getByText("No machine costs money").waitFor();
      }),
    TEST_MS,
  );

  it("forgets the key on request, and refuses to rent without one", () =>
    visiting("/connect?open=market", async ({ page }) => {
      const card = page.locator("#market");
      await card.getByRole("button", { name: "Remove…" }).click();
      await card.getByRole("button", { name: "Remove the stored credential" }).click();
      await card.getByText("not connected").waitFor();
      expect(stored()).not.toContain(simEnv["MARKET_API_KEY"]);
      await page.getByRole("link", { name: "New run" }).click();
      await page.getByLabel("Entrypoint").fill("train.py");
      await page.getByLabel("Provider").selectOption("market");
      await page.getByText("market is not connected").waitFor();
      await page.getByText("This run would be refused").waitFor();
    }));

  it("offers the notebook's cell as a notebook with exactly that cell", () =>
    visiting("/connect/notebook", async ({ page }) => {
      const cell = (await page.getByRole("region", { name: "the cell" }).textContent()) ?? "";
      expect(cell).toContain("ssh-ed25519 ");
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Download as a notebook" }).click(),
      ]);
      expect(download.suggestedFilename()).toBe("svc-connect.ipynb");
      const notebook = JSON.parse(readFileSync(await download.path(), "utf8")) as {
        nbformat: number;
        cells: { cell_type: string; source: string | string[] }[];
      };
      expect(notebook.nbformat).toBe(4);
      const code = notebook.cells.filter((each) => each.cell_type === "code");
      expect(code.map((each) => [each.source].flat().join(""))).toEqual([cell.trimEnd()]);
    }));
});
