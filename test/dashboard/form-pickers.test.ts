// The parts of the form of a new run in which a person chooses instead of typing: folder, script, data, checkpoint, object store.

import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeWorld } from "./fake-world.ts";
import { dashboard, expectAccessible, soundly, type Opened } from "./browser.ts";

/** Its runs come from two directories. */
function worldWithProjects(): FakeWorld {
  const world = fakeWorld();
  for (const [i, { record }] of world.runs.entries())
    record.spec = { ...record.spec, project_dir: i % 2 === 0 ? "/home/me/project" : "/home/me/other" };
  return world;
}

const WAIT = { timeout: DEADLINE_MS };

describe("The form of a new run", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const onEach = async (path: string, use: (opened: Opened) => Promise<void>) => {
    for (const width of [1440, 390])
      await soundly(await board.open(path, { viewport: { width, height: 900 } }, worldWithProjects()), use);
  };
  const optionsOf = ({ page }: Opened, list: string) =>
    page.locator(`#${list} option`).evaluateAll((found) => found.map((each) => each.getAttribute("value")));
  const group = ({ page }: Opened, title: string) => page.locator("summary", { hasText: title });
  const sent = async ({ page, server }: Opened) => {
    await page.getByRole("button", { name: /^Start run/ }).click();
    await page.waitForURL("**/runs/**");
    await page.locator("h1.run-title").waitFor(WAIT);
    const post = server.seen.findLast((each) => each.path === "/jobs" && each.method === "POST");
    if (post === undefined) throw new Error("the form sent no run");
    return (post.body as { spec: Record<string, unknown> }).spec;
  };

  it("A folder is chosen step by step, and its scripts are suggested as the entrypoint", () =>
    onEach("/new?provider=local", async (opened) => {
      const { page } = opened;
      await expect.poll(() => optionsOf(opened, "project-scripts"), WAIT).toEqual(["train.py", "src/evaluate.py"]);
      await page.getByRole("button", { name: "Choose a folder…" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("Scripts: train.py, src/evaluate.py").waitFor(WAIT);
      await dialog.getByRole("button", { name: "One folder up" }).click();
      await dialog.getByRole("heading", { name: "/home/me", exact: true }).waitFor(WAIT);
      await expectAccessible(page);
      await dialog.getByRole("button", { name: "project/" }).click();
      await dialog.getByRole("button", { name: "src/" }).click();
      await dialog.getByRole("heading", { name: "/home/me/project/src" }).waitFor(WAIT);
      await dialog.getByRole("button", { name: "Use this folder" }).click();
      await dialog.waitFor({ state: "detached" });
      expect(await page.getByLabel("Project directory").inputValue()).toBe("/home/me/project/src");
      await page.getByLabel("Entrypoint").fill("run.py");
      expect(await sent(opened)).toMatchObject({ entrypoint: "run.py", project_dir: "/home/me/project/src" });
    }));

  it("Directories of recent runs are suggested, each once", () =>
    onEach("/new", async (opened) => {
      await expect.poll(() => optionsOf(opened, "recent-projects"), WAIT).toHaveLength(2);
      const shown = await optionsOf(opened, "recent-projects");
      expect(new Set(shown)).toEqual(new Set(["/home/me/other", "/home/me/project"]));
      await opened.page.getByRole("button", { name: "Choose a folder…" }).click();
      await opened.page.getByRole("region", { name: "Recent" }).getByRole("button").first().click();
      expect(await opened.page.getByLabel("Project directory").inputValue()).toBe(shown[0]);
    }));

  it("Data and an earlier run's checkpoint are chosen from lists", () =>
    onEach("/new?entrypoint=train.py&provider=local&data=gone-data", async (opened) => {
      const { page } = opened;
      await group(opened, "Data and checkpoints (1 set)").click();
      await page.getByLabel(/^digits-8x8/).check();
      await page.getByLabel(/^gone-data not on this computer any more/).click();
      await page.getByLabel("Resume from", { exact: true }).fill("r1-digits");
      const point = page.getByLabel("Resume from checkpoint");
      await expect.poll(() => point.locator("option").count(), WAIT).toBeGreaterThan(1);
      expect(await point.locator("option").first().textContent()).toBe("the last complete one");
      await point.selectOption({ index: 1 });
      const name = await point.inputValue();
      expect(await sent(opened)).toMatchObject({
        data: ["digits-8x8"],
        resume_from: "r1-digits",
        resume_checkpoint: name,
      });
    }));

  it("Object stores are rows, and the address tells the kind", () =>
    onEach("/new?entrypoint=train.py&provider=local", async (opened) => {
      const { page } = opened;
      await group(opened, "Data and checkpoints").click();
      const add = page.getByRole("button", { name: "Add an object store" });
      const row = (n: number) => page.getByRole("group", { name: `Object store ${n}` });
      for (let i = 0; i < 3; i++) await add.click();
      await row(1).getByLabel("Address").fill("gs://models/run-1");
      await row(1).getByLabel("Copies").selectOption("checkpoints and logs");
      await page.getByRole("button", { name: "Remove object store 2" }).click();
      await row(2).getByLabel("Address").fill("s3://logs");
      await row(2).getByLabel("Copies").selectOption("logs");
      await row(2).getByLabel("Endpoint").fill("https://store.example");
      await group(opened, "Data and checkpoints (1 set)").waitFor(WAIT);
      expect((await sent(opened))["sinks"]).toEqual([
        { kind: "objstore_b", url: "gs://models/run-1", what: ["checkpoints", "logs"] },
        { kind: "objstore_a", url: "s3://logs", what: ["logs"], endpoint: "https://store.example" },
      ]);
    }));
});
