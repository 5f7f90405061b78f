import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { bestAt, betterOf, judges, valueUpTo } from "../../dashboard/src/run/metrics/judge.ts";
import { sumLine } from "../../dashboard/src/run/checkpoint-digests.tsx";
import { stepInName } from "../../src/domain/step-in-name.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectSound, LOOKS, soundly, takePicture } from "./browser.ts";
import { fakeRun, fakeWorld } from "./fake-world.ts";

it("The list of checkpoints takes the step from a file's name, and ignores its other numbers", () => {
  expect(stepInName("step-1200.pt")).toBe(1_200);
  expect(stepInName("epoch-020/model.bin")).toBe(20);
  expect(stepInName("weights-040.json")).toBe(40);
  expect(stepInName("m-195.txt")).toBe(195);
  expect(stepInName("deep/3/000500.tar.gz")).toBe(500);
  for (const other of [
    "model-00001-of-00002.safetensors",
    "rank_3.pt",
    "resnet50.pt",
    "loss-0.25.pt",
    "last.pt",
    "3/m",
  ])
    expect(stepInName(other), other).toBeNull();
});

it("judges by a metric's name: data that was held out first, losses before scores, and the machine's never", () => {
  const names = ["train/loss", "val/accuracy", "lr", "system/gpu0_util_percent", "val/loss", "rmse", "map"];
  expect(judges(names)).toEqual(["val/loss", "val/accuracy", "train/loss", "rmse", "map"]);
  expect(["eval/ppl", "F1", "space", "format/error", "terror", "steps"].map(betterOf)).toEqual([
    "min",
    "max",
    null,
    "min",
    null,
    null,
  ]);
});

it("takes the last value up to the step of a checkpoint, also after a resumed run went back", () => {
  const columns = { step: [1, 5, 9, 5], time: [], value: [4, 3, 2, 2.5], rank: [], next: 4, thinned: false };
  expect([0, 1, 7, 9].map((step) => valueUpTo(columns, step))).toEqual([null, 4, 2.5, 2]);
  expect(valueUpTo({ ...columns, value: [4, Number.NaN, 2, Number.NaN] }, 6)).toBeNull();
  expect([bestAt([null, 3, 2, 2], "min"), bestAt([null, 3, 2], "max"), bestAt([null], "min")]).toEqual([2, 1, -1]);
});

it("writes a digest as sha256sum does, also for a name with a backslash or a line break", () => {
  expect(sumLine("ab12", "epoch-010/model.bin")).toBe("ab12  epoch-010/model.bin\n");
  expect(sumLine("ab12", "a\\b\nc")).toBe("\\ab12  a\\\\b\\nc\n");
});

const WAIT = { timeout: DEADLINE_MS };

describe("the checkpoints of a run", { tags: "needs/chromium" }, () => {
  const board = dashboard();

  it("are shown without a column of steps if no name has a step", async () => {
    const { page, server, close } = await board.open("/runs/r1-digits?tab=checkpoints", {}, fakeWorld());
    await page.waitForSelector(".connection-live");
    const titles = () => page.locator(".files th").allTextContents();
    await expect.poll(titles, WAIT).toEqual(["File", "Step", "Size", "Written", "SHA-256"]);
    const run = server.run("r1-digits");
    run.checkpoints = run.checkpoints.map((file, i) => ({ ...file, path: `model-${"abc"[i]}.bin` }));
    server.emit("checkpoint.saved", "r1-digits");
    await expect.poll(titles, WAIT).toEqual(["File", "Size", "Written", "SHA-256"]);
    await close();
  });

  it("are all given their digests by one click, and copied as lines for sha256sum", async () => {
    const look = { permissions: ["clipboard-read", "clipboard-write"] };
    const opened = await board.open("/runs/r1-digits?tab=checkpoints", look);
    await soundly(opened, async ({ page, server }) => {
      await page.getByRole("button", { name: "Compute all digests" }).press("Enter");
      const copy = page.getByRole("button", { name: "Copy all digests" });
      await copy.click();
      await page.getByText("Copied 3 lines.").waitFor();
      const run = server.run("r1-digits");
      const lines = run.checkpoints.map(({ path }) => `${"ab".repeat(32)}  ${path}`);
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      expect(copied.trimEnd().split("\n").sort()).toEqual(lines.sort());
      await expect.poll(() => page.locator("code.digest").count(), WAIT).toBe(3);
      const asked = () => server.seen.filter(({ path }) => path.includes("checkpoint-digest")).length;
      expect(asked()).toBe(3);
      // A file that is written again loses its digest; the others keep theirs.
      run.checkpoints = run.checkpoints.map((file, i) =>
        i === 0 ? { ...file, modified_at: new Date().toISOString() } : file,
      );
      server.emit("checkpoint.saved", "r1-digits");
      await page.getByRole("button", { name: "Compute all digests" }).click();
      await copy.waitFor();
      expect(asked()).toBe(4);
    });
  });

  it("can each be resumed from: the form of a new run names the job and the checkpoint", async () => {
    const { page, close } = await board.open("/runs/r1-digits?tab=checkpoints", {}, fakeWorld());
    await page.waitForSelector(".connection-live");
    await page.getByRole("link", { name: "Resume from this: epoch-010/model.bin" }).click();
    await page.getByText("Continues digits, two hidden layers from checkpoint epoch-010/model.bin").waitFor();
    await page.locator("summary", { hasText: "Data and checkpoints" }).click();
    await expect.poll(() => page.getByLabel("Resume from", { exact: true }).inputValue(), WAIT).toBe("r1-digits");
    await expect.poll(() => page.getByLabel("Resume from checkpoint").inputValue(), WAIT).toBe("epoch-010/model.bin");
    await close();
  });

  it("show the best one first, by a metric on held-out data or another that is chosen", async () => {
    const world = fakeWorld();
    const run = world.runs.find(({ record }) => record.id === "r1-digits");
    if (!run) throw new Error("the run is missing");
    const curve = (values: number[]) => values.map((value, i) => ({ step: 10 * i, time: i, value, rank: 0 }));
    run.metrics = { "train/loss": curve([3, 2, 1, 0.5]), "val/loss": curve([3, 1.25, 2, 2.5]), lr: curve([1, 1, 1]) };
    run.checkpoints = [3, 2, 1].map((i) => ({
      path: `epoch-0${i}0.bin`,
      size: 1_000,
      modified_at: new Date(i * 1_000).toISOString(),
    }));
    await soundly(await board.open("/runs/r1-digits?tab=checkpoints", {}, world), async ({ page }) => {
      const rows = () => page.locator(".points li > span").allTextContents();
      await expect
        .poll(rows, WAIT)
        .toEqual([
          expect.stringMatching(/^Step 10 val\/loss 1.25 best epoch-010.bin/),
          expect.stringMatching(/^Step 30 val\/loss 2.5 epoch-030.bin/),
          expect.stringMatching(/^Step 20 val\/loss 2 epoch-020.bin/),
        ]);
      const metric = page.getByLabel("Best by");
      expect(await metric.locator("option").allTextContents()).toEqual(["val/loss", "train/loss"]);
      await metric.selectOption("train/loss");
      await expect.poll(async () => (await rows())[0], WAIT).toMatch(/^Step 30 train\/loss 0.5 best/);
    });
  });

  /** A run with three checkpoints, a file that belongs to none, and a loss that is lowest at the second. */
  function worldOfThree(status: "succeeded" | "running" = "succeeded") {
    const world = fakeWorld();
    const run = world.runs.find(({ record }) => record.id === "r1-digits");
    if (!run) throw new Error("the run is missing");
    run.record = { ...run.record, status, ended_at: status === "running" ? null : run.record.created_at };
    run.metrics = { "val/loss": [3, 1.25, 2, 2.5].map((value, i) => ({ step: 10 * i, time: i, value, rank: 0 })) };
    run.checkpoints = [3, 2, 1].map((i) => ({
      path: `epoch-0${i}0.bin`,
      size: 400_000_000,
      modified_at: new Date(i * 1_000).toISOString(),
    }));
    return { world, run };
  }
  const points = (page: Page) => page.locator(".points li .point-about");
  const bar = (page: Page) => page.getByRole("region", { name: "Selected checkpoints" });

  it.each(LOOKS)("can be deleted, all but the best, by keys alone, at $width pixels, $colorScheme", async (look) => {
    const { world, run } = worldOfThree();
    const viewport = { width: look.width, height: 900 };
    const opened = await board.open("/runs/r1-digits?tab=checkpoints", { ...look, viewport }, world);
    await soundly(opened, async ({ page }) => {
      await page.getByRole("button", { name: "Select all but the best" }).press("Enter");
      await expect.poll(() => bar(page).textContent(), WAIT).toContain("2 selected · 800 MB");
      await takePicture(page, `checkpoints-selected-${look.width}-${look.colorScheme}`);
      await bar(page).getByRole("button", { name: "Delete…" }).press("Enter");
      const dialog = page.getByRole("dialog", { name: "Delete 2 checkpoints, 800 MB?" });
      await expect.poll(() => dialog.textContent(), WAIT).toContain("Would free 800 MB on the disk.");
      // The choice that changes nothing has the focus.
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent), WAIT).toBe("Keep");
      await expectSound(opened);
      await takePicture(page, `checkpoints-dialog-${look.width}-${look.colorScheme}`);
      await page.keyboard.press("Escape");
      await page.locator("dialog").waitFor({ state: "detached" });
      expect(run.checkpoints).toHaveLength(3);
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent), WAIT).toBe("Delete…");
      await page.keyboard.press("Enter");
      // A key does nothing there while the dialog measures the disk space.
      await expect.poll(() => dialog.textContent(), WAIT).toContain("Would free 800 MB on the disk.");
      await dialog.getByRole("button", { name: "Delete 2 checkpoints" }).press("Enter");
      await page.getByText("2 checkpoints deleted. Freed 800 MB on the disk.").waitFor();
      await expect.poll(() => points(page).allTextContents(), WAIT).toEqual([expect.stringContaining("epoch-010.bin")]);
      expect(run.checkpoints.map(({ path }) => path)).toEqual(["epoch-010.bin"]);
      await bar(page).waitFor({ state: "detached" });
    });
  });

  it("that are all deleted leave no resumable run: the dialog says so, and the page then says that none is left", async () => {
    const { world } = worldOfThree();
    await soundly(await board.open("/runs/r1-digits?tab=checkpoints", {}, world), async ({ page }) => {
      for (const n of [1, 2, 3]) await page.getByLabel(`Select epoch-0${n}0.bin`).press("Space");
      await bar(page).getByRole("button", { name: "Delete…" }).click();
      await page.getByText("No complete checkpoint is left then").waitFor();
      await page.getByRole("button", { name: "Delete 3 checkpoints" }).click();
      await page.getByText("No checkpoint of this run is on this computer.").waitFor();
      await page.getByText("3 checkpoints deleted. Freed 1.2 GB on the disk.").waitFor();
    });
  });

  it.each([
    ["local", false],
    ["market", true],
  ] as const)(
    "that do not exist: the page of a run at %s says that svc downloads nothing else: %s",
    async (provider, says) => {
      const world = { runs: [fakeRun("none", 100, { provider, status: "succeeded" })], machines: [], providers: [] };
      await soundly(await board.open("/runs/none?tab=checkpoints", {}, world), async ({ page }) => {
        const words = page.getByText("No checkpoint of this run is on this computer.");
        await words.waitFor(WAIT);
        expect((await words.textContent())?.includes("svc downloads no other file from its machine.")).toBe(says);
      });
    },
  );

  it("stay when the server refuses: the reason is in the dialog, and nothing can be confirmed", async () => {
    const { world, run } = worldOfThree();
    run.checkpoints[0] = { ...run.checkpoints[0]!, path: "in-use-epoch-040.bin" };
    const opened = await board.open("/runs/r1-digits?tab=checkpoints", {}, world);
    const { page } = opened;
    await page.getByLabel("Select in-use-epoch-040.bin").check();
    await bar(page).getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("dialog").getByText("The run r9 resumes from it.").waitFor();
    const yes = page.getByRole("button", { name: "Delete 1 checkpoint" });
    expect(await yes.getAttribute("aria-disabled")).toBe("true");
    await yes.click({ force: true });
    expect(run.checkpoints).toHaveLength(3);
    await opened.close();
  });

  it("that another tab has deleted leave the list and the selection", async () => {
    const { world, run } = worldOfThree();
    const { page, server, close } = await board.open("/runs/r1-digits?tab=checkpoints", {}, world);
    await page.getByLabel("Select epoch-010.bin").check();
    await page.getByLabel("Select epoch-030.bin").check();
    run.checkpoints = run.checkpoints.filter(({ path }) => path !== "epoch-010.bin");
    server.emit("checkpoint.removed", "r1-digits", { name: "epoch-010.bin", bytes: 400_000_000 });
    await expect.poll(() => bar(page).textContent(), WAIT).toContain("1 selected · 400 MB");
    await page.getByRole("link", { name: "Events" }).click();
    await page.getByText("checkpoint epoch-010.bin deleted, 400 MB").waitFor();
    await close();
  });

  it("of an open run cannot be selected", async () => {
    const { world } = worldOfThree("running");
    const { page, close } = await board.open("/runs/r1-digits?tab=checkpoints", {}, world);
    await points(page).first().waitFor();
    expect(await page.locator("main input[type=checkbox]").count()).toBe(0);
    await close();
  });
});
