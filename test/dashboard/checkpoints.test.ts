import { describe, expect, it } from "vitest";
import { stepOf } from "../../dashboard/src/run/step-of.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard } from "./browser.ts";
import { fakeWorld } from "./fake-world.ts";

it("The list of checkpoints takes the step from a file's name, and ignores its other numbers", () => {
  expect(stepOf("step-1200.pt")).toBe(1_200);
  expect(stepOf("epoch-020/model.bin")).toBe(20);
  expect(stepOf("weights-040.json")).toBe(40);
  expect(stepOf("m-195.txt")).toBe(195);
  expect(stepOf("deep/3/000500.tar.gz")).toBe(500);
  for (const other of [
    "model-00001-of-00002.safetensors",
    "rank_3.pt",
    "resnet50.pt",
    "loss-0.25.pt",
    "last.pt",
    "3/m",
  ])
    expect(stepOf(other), other).toBeNull();
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

  it("can each be resumed from: the form of a new run names the job and the checkpoint", async () => {
    const { page, close } = await board.open("/runs/r1-digits?tab=checkpoints", {}, fakeWorld());
    await page.waitForSelector(".connection-live");
    await page.getByRole("link", { name: "Resume from this: epoch-010/model.bin" }).click();
    await page.locator("summary", { hasText: "Data and checkpoints" }).click();
    await expect.poll(() => page.getByLabel("Resume from", { exact: true }).inputValue(), WAIT).toBe("r1-digits");
    await expect.poll(() => page.getByLabel("Resume from checkpoint").inputValue(), WAIT).toBe("epoch-010/model.bin");
    await close();
  });
});
