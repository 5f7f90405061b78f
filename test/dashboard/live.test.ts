import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, type Opened } from "./browser.ts";
import { fakeWorld, HOSTILE, step } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
describe("the live dashboard", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withPage = async (
    path: string,
    use: (opened: Opened) => Promise<void>,
    world?: Parameters<typeof board.open>[2],
  ) => {
    const opened = await board.open(path, { viewport: { width: 1280, height: 900 } }, world);
    try {
      await opened.page.waitForSelector(".connection-live", { timeout: DEADLINE_MS });
      await use(opened);
    } finally {
      await opened.close();
    }
  };

  it("starts a run from the form once, after any number of clicks", () =>
    withPage("/new", async ({ page, server }) => {
      await page.getByLabel("Entrypoint").fill("train.py");
      await page.getByLabel("Arguments").fill("--epochs\n3\n");
      await page.getByLabel("Label").fill("from the form");
      await page.getByRole("button", { name: "Start run" }).dblclick();
      await page.waitForURL(/\/runs\/n/);
      await page.waitForSelector("h1:has-text('from the form')");
      const posts = server.seen.filter((each) => each.method === "POST" && each.path === "/jobs");
      expect(posts[0]?.body).toEqual({
        label: "from the form",
        spec: { entrypoint: "train.py", args: ["--epochs", "3"], provider: "local" },
      });
      expect(new Set(posts.map((each) => each.key)).size).toBe(1);
      expect(posts[0]?.key).toMatch(/^[0-9a-f]{32}$/);
    }));

  it("shows the server's errors at their fields, also in folded parts", () =>
    withPage("/new", async ({ page, server }) => {
      await page.locator("summary", { hasText: /^Machine/ }).click();
      await page.getByLabel("Disk").fill("a lot");
      await page.locator("summary", { hasText: /^Machine/ }).click();
      await page.getByRole("button", { name: "Start run" }).click();
      const entrypoint = page.getByLabel("Entrypoint");
      await page.waitForSelector("#field-entrypoint-error >> text=must not be empty");
      await page.waitForSelector("#field-disk_gb-error:visible >> text=must be a whole number");
      expect(await entrypoint.getAttribute("aria-invalid")).toBe("true");
      expect(await entrypoint.getAttribute("aria-describedby")).toContain("field-entrypoint-error");
      expect(await entrypoint.evaluate((input) => input === document.activeElement)).toBe(true);
      await page.getByText("To correct: Entrypoint, Disk.").waitFor();
      await entrypoint.fill("train.py");
      // A corrected field no longer shows an error.
      await page.waitForSelector("#field-entrypoint-error", { state: "detached" });
      await page.getByText("To correct: Disk.").waitFor();
      await page.getByLabel("Disk").fill("");
      await page.getByText("Nothing was started").waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Start run" }).click();
      await page.waitForURL(/\/runs\/n/);
      const keys = server.seen.flatMap((each) => (each.method === "POST" && each.path === "/jobs" ? [each.key] : []));
      expect(new Set(keys).size, "a refused form may be sent again under a new key").toBe(2);
    }));

  it("keeps the values of the form while the user connects a provider, and starts a new run with an empty form", () =>
    withPage("/new", async ({ page }) => {
      await page.getByLabel("Entrypoint").fill("mine.py");
      await page.getByLabel("Provider").selectOption("market");
      await page.getByRole("link", { name: "Connect market" }).click();
      await page.waitForURL("**/connect?open=market");
      await page.goBack();
      await expect.poll(() => page.getByLabel("Entrypoint").inputValue(), WAIT).toBe("mine.py");
      expect(await page.getByLabel("Provider").inputValue()).toBe("market");
      await page.getByRole("link", { name: "Runs", exact: true }).click();
      await page.getByRole("link", { name: "New run" }).click();
      await page.waitForURL("**/new");
      expect(await page.getByLabel("Entrypoint").inputValue()).toBe("");
    }));

  it("prefills the form from an earlier run", () =>
    withPage("/runs/r1-digits", async ({ page }) => {
      await page.getByRole("link", { name: "Rerun with changes" }).click();
      await page.waitForURL("**/new?from=r1-digits");
      expect(await page.getByLabel("Label").inputValue()).toBe("digits, two hidden layers");
      expect(await page.getByLabel("Entrypoint").inputValue()).toBe("examples/digits/train.py");
    }));

  it("shows new log lines, steps and states as they arrive", () =>
    withPage("/runs/r1-digits", async ({ page, server }) => {
      await page.waitForSelector(".log-row >> text=epoch >> nth=0");
      server.appendLog("r1-digits", `now \u001b[31mred ${HOSTILE}\u001b[0m\n1%\r99%`);
      await page.waitForSelector(".log-row >> text=now red");
      await page.waitForSelector(".log-row >> text=/^99%$/");

      const run = server.run("r1-digits");
      run.timeline.steps = [...run.timeline.steps.slice(0, -1), step("stream", 46, 0), step("collect", 0, null)];
      run.record = {
        ...run.record,
        status: "terminating",
        note: { kind: "step_waiting", message: "collecting checkpoints" },
      };
      server.emit("job.transition", "r1-digits", { from: "running", to: "terminating", event: "run.exited" });
      await page.waitForSelector(".run-head .pill >> text=terminating");
      await page.waitForSelector(".step-running >> text=Save results");
      await page.waitForSelector("text=collecting checkpoints");
      // Progress within a step sends no event.
      const doing = {
        doing: "sending the project",
        files: 3,
        files_total: 1_200,
        bytes: 4_000_000,
        bytes_total: 9_000_000,
      };
      run.timeline.steps = [...run.timeline.steps.slice(0, -1), { ...step("collect", 0, null), detail: doing }];
      await page.getByText("sending the project, 4.0 MB of 9.0 MB, 3 of 1,200 files").waitFor();
      const waiting = { waiting_for: "its image is being fetched" };
      run.timeline.steps = [...run.timeline.steps.slice(0, -1), { ...step("collect", 0, null), detail: waiting }];
      await page.getByText("Waiting: its image is being fetched").waitFor();
      expect(await page.evaluate(() => "hacked" in globalThis)).toBe(false);
    }));

  it("leads from a step to each of its attempts with the keyboard", () =>
    withPage("/runs/r3-retry", async ({ page }) => {
      await page.getByRole("button", { name: "Get machine", exact: true }).first().focus();
      await page.keyboard.press("Enter");
      const detail = page.getByRole("region", { name: "Step Get machine" });
      await detail.getByText("Get machine, node 0, attempt 2").waitFor();
      await detail.getByRole("button", { name: "Attempt 1, failed" }).focus();
      await page.keyboard.press("Enter");
      await detail.getByText("Get machine, node 0, attempt 1").waitFor();
      expect(new URL(page.url()).searchParams.get("step")).toBe("provision.0.1");
    }));

  it("adds points to the charts without reading all of them again", () =>
    withPage("/runs/r1-digits?tab=metrics", async ({ page, server }) => {
      await page.waitForSelector("canvas");
      // The page reads the whole series again when its socket opens, perhaps after the first chart: this point shows
      // whether it did.
      server.appendMetric("r1-digits", "loss", { step: 4_999, time: 1_700_008_999, value: 0.031_25, rank: 0 });
      await page.waitForSelector(".chart-value >> text=0.03125");
      const before = server.seen.length;
      server.appendMetric("r1-digits", "loss", { step: 5_000, time: 1_700_009_000, value: 0.015_625, rank: 0 });
      await page.waitForSelector(".chart-value >> text=0.015625");
      const reads = server.seen.slice(before).filter((each) => each.path.includes("/series/points"));
      expect(reads.length).toBeGreaterThan(0);
      expect(reads.flatMap((each) => each.path.match(/:\d+/g) ?? [])).not.toContain(":0");
    }));

  it("names run and machine before a kill", () =>
    withPage("/", async ({ page, server }) => {
      const kill = page.getByRole("button", { name: "Kill digits, two hidden layers r1-digits" });
      await kill.focus();
      await page.keyboard.press("Enter");
      const dialog = page.getByRole("dialog");
      await dialog.waitFor();
      const focused = () => page.evaluate(() => document.activeElement?.textContent);
      await expect.poll(focused, WAIT).toBe("Keep running");
      expect(await dialog.textContent()).toContain("digits, two hidden layers");
      expect(await dialog.textContent()).toContain("svc-r1-digits-0");
      // It runs on this computer, which no dialog may threaten to terminate.
      expect(await dialog.textContent()).toContain("This computer stays as it is.");
      expect(await dialog.textContent()).not.toContain("terminated");
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
      await expect
        .poll(() => page.evaluate(() => document.activeElement?.getAttribute("aria-label")), WAIT)
        .toBe("Kill digits, two hidden layers r1-digits");
      expect(server.seen.some((each) => each.path.endsWith("/kill"))).toBe(false);
      await kill.click();
      await dialog.getByRole("button", { name: "Kill run" }).click();
      await page.waitForSelector("tr:has-text('r1-digits') .pill >> text=terminating");
      await dialog.waitFor({ state: "hidden" });
      // The button of the run has disappeared, so the focus moves to the run.
      await expect.poll(() => page.evaluate(() => document.activeElement?.id), WAIT).toBe("run-r1-digits");
    }));

  it("says that the runtime of a notebook keeps running after a kill", () =>
    withPage("/runs/r1-digits", async ({ page, server }) => {
      const run = server.run("r1-digits");
      run.record = { ...run.record, provider: "notebook" };
      server.emit("job.transition", "r1-digits");
      await page.locator(".run-facts, main").first().getByText("notebook").first().waitFor();
      await page.getByRole("button", { name: "Kill", exact: true }).click();
      const words = await page.getByRole("dialog").textContent();
      expect(words).toContain("keeps running and may cost money: shut it down yourself");
      expect(words).not.toContain("the machine is terminated");
    }));

  it("stops asking about a run that has ended meanwhile", () =>
    withPage("/runs/r1-digits", async ({ page, server }) => {
      await page.getByRole("button", { name: "Kill", exact: true }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("Kill this run?").waitFor();
      const run = server.run("r1-digits");
      run.record = {
        ...run.record,
        status: "succeeded",
        exit_code: 0,
        ended_at: new Date().toISOString(),
        machines: [],
      };
      server.emit("job.transition", "r1-digits");
      await dialog.getByText("It ended while this dialog was open: succeeded.").waitFor();
      expect(await dialog.getByRole("button").allTextContents()).toEqual(["Close"]);
    }));

  it("shows current costs and machines that may still cost money", () =>
    withPage("/", async ({ page }) => {
      const money = page.locator("details.money");
      await money.waitFor();
      expect(await money.locator("summary").innerText()).toContain("$18.40/h");
      expect(await money.locator("summary").innerText()).toContain("1 may still cost money");
      await money.locator("summary").click();
      await page.waitForSelector("text=svc-r5-ending-0");
    }));

  it("raises no alarm during an ordinary release of a machine, and raises one if the release takes long or fails", () =>
    withPage("/runs/r5-ending", async ({ page, server }) => {
      const run = server.run("r5-ending");
      const money = page.locator("details.money summary");
      const returning = "Releasing the machine; the provider has not confirmed yet.";
      await page.getByText("Downloading the run’s files; svc then releases the machine.").waitFor();
      await expect.poll(() => money.innerText(), WAIT).toContain("1 may still cost money");
      run.timeline.steps = [step("provision", 5_400, 5_390), step("terminate", 1, null)];
      server.emit("step.started", "r5-ending", { step: "terminate", node: 0, attempt: 1 });
      await page.locator(".banner-info").getByText(returning).waitFor();
      await expect.poll(() => money.innerText(), WAIT).toContain("Releasing 1 machine");
      expect(await page.locator(".banner-warn, .doubt").count()).toBe(0);
      run.timeline.steps = [step("provision", 5_400, 5_390), step("terminate", 61, null)];
      server.emit("step.started", "r5-ending", { step: "terminate", node: 0, attempt: 2 });
      await page.locator(".banner-warn").getByText("The machine may still cost money.").waitFor();
      await expect.poll(() => money.innerText(), WAIT).toContain("1 may still cost money");
    }));

  it("shows an unreported price as unknown", async () => {
    const world = fakeWorld();
    const [first] = world.machines;
    if (!first) throw new Error("the fake world has no machine");
    world.machines = [{ ...first, provider: "cloudvm", price_per_hour_usd: null, cost_usd: null }];
    await withPage(
      "/machines",
      async ({ page, server }) => {
        const summary = page.locator("details.money summary");
        await expect.poll(() => summary.innerText(), WAIT).toBe("Price unknown · 1 machine");
        const facts = (await page.locator("main .facts").textContent()) ?? "";
        expect(facts).toBe("Machines1Price nowunknownCost so farunknown");
        server.world.machines = [...world.machines, { ...first, name: "svc-priced-0", price_per_hour_usd: 2 }];
        server.emit("machine.changed", null);
        await expect.poll(() => summary.innerText(), WAIT).toBe("Paying $2.00/h + 1 of unknown price · 2 machines");
        expect(await page.locator("main").textContent()).not.toContain("$0.00");
      },
      world,
    );
  });

  it("catches up after a lost connection, without reloading the page", () =>
    withPage("/runs/r1-digits", async ({ page, server }) => {
      await page.waitForSelector(".log-row >> text=epoch >> nth=0");
      await page.evaluate(() => Object.assign(globalThis, { sameDocument: true }));
      server.emit("notice", "r1-digits");
      await page.waitForTimeout(50);
      server.cut(true);
      await page.waitForSelector(".connection-reconnecting, .connection-offline");
      server.appendLog("r1-digits", "written while away\n");
      const run = server.run("r1-digits");
      run.record = { ...run.record, status: "succeeded", exit_code: 0, ended_at: new Date().toISOString() };
      server.emit("job.transition", "r1-digits");
      server.cut(false);
      await page.waitForSelector(".connection-live");
      await page.waitForSelector(".log-row >> text=written while away");
      await page.waitForSelector(".run-head .pill >> text=succeeded");
      expect(await page.evaluate(() => "sameDocument" in globalThis)).toBe(true);
      await expect.poll(() => page.title(), WAIT).toMatch(/^\(3\) ✓ digits/);
      server.run("r1-digits").record.status = "failed";
      server.emit("job.transition", "r1-digits");
      await expect.poll(() => page.title(), WAIT).toMatch(/^\(3\) ✗ digits/);
    }));

  it("says what to do while the control plane is away, and stops its clocks", () =>
    withPage("/runs/r1-digits", async ({ page, server }) => {
      const clock = page.locator(".fact", { hasText: "Duration" }).locator("dd");
      const ticking = await clock.textContent();
      await expect.poll(() => clock.textContent(), WAIT).not.toBe(ticking);
      server.cut(true);
      const notice = page.locator(".stale");
      await notice.getByText("svc serve").waitFor();
      expect(await notice.textContent()).toContain("Rented machines keep running and may cost money.");
      const shown = await page.locator("main").textContent();
      await page.waitForTimeout(2_500);
      expect(await page.locator("main").textContent()).toBe(shown);
      server.cut(false);
      await page.waitForSelector(".connection-live");
      const stood = await clock.textContent();
      await expect.poll(() => clock.textContent(), WAIT).not.toBe(stood);
    }));

  it("times out a connection that neither opens nor fails, and makes another", async () => {
    await withPage("/", async ({ page, server, complaints }) => {
      server.silent = 1;
      server.cut(false);
      await expect.poll(() => server.silent, WAIT).toBe(0);
      expect(await page.locator(".connection-live").count()).toBe(0);
      await page.waitForSelector(".connection-live", { timeout: DEADLINE_MS });
      expect((await complaints()).filter((each) => !/WebSocket/.test(each))).toEqual([]);
    });
  });

  it("opens its other pages even while the control plane is away", () =>
    withPage("/", async ({ page, server }) => {
      await page.waitForFunction(() =>
        performance.getEntriesByType("resource").some(({ name }) => name.includes("machines-page")),
      );
      server.cut(true);
      await page.getByRole("link", { name: "Machines", exact: true }).click();
      await page.getByRole("heading", { name: "Machines", exact: true }).waitFor();
    }));

  it("reports a page that cannot be read, and shows the others", () =>
    withPage("/", async ({ page }) => {
      await page.route(/machines-page/, (route) => route.abort());
      await page.reload();
      await page.getByRole("link", { name: "Machines", exact: true }).click();
      await page.getByRole("heading", { name: "This page could not be shown" }).waitFor();
      await page.getByRole("link", { name: "Runs", exact: true }).click();
      await page.getByRole("heading", { name: "Runs" }).waitFor();
      await page.getByRole("link", { name: "Machines", exact: true }).click();
      await page.unroute(/machines-page/);
      await page.getByRole("button", { name: "Load it again" }).click();
      await page.getByRole("heading", { name: "Machines", exact: true }).waitFor();
    }));

  it("moves from the list to a run and back with only the keyboard", () =>
    withPage("/", async ({ page }) => {
      await page.getByRole("link", { name: "digits, two hidden layers" }).focus();
      await page.keyboard.press("Enter");
      await page.waitForURL("**/runs/r1-digits");
      await page.goBack();
      await page.waitForSelector(".runs");
    }));
});
