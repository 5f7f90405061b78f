// The Code tab of a run: its files as folders, and long lines that wrap.

import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { foldersTo, rowsOf, treeOf } from "../../dashboard/src/run/code-tree.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, LOOKS, soundly } from "./browser.ts";
import { fakeWorld } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };
const file = (path: string, size = 10) => ({ path, size, sha256: "0".repeat(64), mode: "file" as const });

it("The files of a snapshot are sorted into folders with sizes, and a chain of lone folders is one row", () => {
  const tree = treeOf(
    ["z.py", "src/a/b/c/deep.py", "src/a/b/c/d/e.py", "data/x10.txt", "data/x9.txt"].map((path) => file(path)),
  );
  const rows = (...open: string[]) =>
    rowsOf(tree, new Set(open)).map(({ level, name, bytes }) => `${"  ".repeat(level - 1)}${name} ${bytes}`);
  expect(rows()).toEqual(["data 20", "src/a/b/c 20", "z.py 10"]);
  expect(rows("data", ...foldersTo("src/a/b/c/d/e.py"))).toEqual([
    "data 20",
    "  x9.txt 10",
    "  x10.txt 10",
    "src/a/b/c 20",
    "  d 10",
    "    e.py 10",
    "  deep.py 10",
    "z.py 10",
  ]);
  expect(rowsOf(treeOf([]), new Set())).toEqual([]);
});

describe("the code of a run", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const tree = (page: Page) => page.getByRole("tree", { name: "Files of the snapshot" });
  const names = (page: Page) => tree(page).locator(".tree-name").allTextContents();

  function worldOf(paths: readonly string[]) {
    const world = fakeWorld();
    const run = world.runs.find(({ record }) => record.id === "r1-digits");
    if (!run) throw new Error("the run is missing");
    run.code = { ...run.code, files: paths.map((path) => file(path)) };
    return world;
  }
  const many = () => [
    ...Array.from({ length: 2_000 }, (_, i) => `data/part/${String(i).padStart(4, "0")}.txt`),
    "lib/net/layers.py",
    "train.py",
  ];

  it.each(LOOKS)(
    "has 2,000 files in folders that keys open and close, at $width pixels, $colorScheme",
    async (look) => {
      const { width, colorScheme } = look;
      const opened = await board.open(
        "/runs/r1-digits?tab=code&file=train.py",
        { viewport: { width, height: 900 }, colorScheme },
        worldOf(many()),
      );
      await soundly(
        opened,
        async ({ page }) => {
          await expect.poll(() => names(page), WAIT).toEqual(["data/part/", "lib/net/", "train.py"]);
          await tree(page).press("Home");
          await tree(page).press("ArrowRight");
          await expect.poll(async () => (await names(page))[1], WAIT).toBe("0000.txt");
          // Only the rows in view are drawn, also at the end of the list.
          expect((await names(page)).length).toBeLessThan(80);
          await tree(page).press("End");
          await expect.poll(async () => (await names(page)).at(-1), WAIT).toBe("train.py");
          expect((await names(page)).length).toBeLessThan(80);
          await tree(page).press("ArrowUp");
          await tree(page).press("Enter");
          await expect
            .poll(async () => (await names(page)).slice(-3), WAIT)
            .toEqual(["lib/net/", "layers.py", "train.py"]);
          await tree(page).press("ArrowDown");
          await tree(page).press("Enter");
          await page.waitForURL("**file=lib%2Fnet%2Flayers.py");
          await expect
            .poll(() => tree(page).locator("[aria-selected=true]").textContent(), WAIT)
            .toContain("layers.py");
          await tree(page).press("ArrowLeft");
          await tree(page).press("ArrowLeft");
          await expect.poll(async () => (await names(page)).slice(-2), WAIT).toEqual(["lib/net/", "train.py"]);
          const row = await tree(page).getByRole("treeitem").last().boundingBox();
          expect(row?.height).toBe(width === 390 ? 44 : 28);
        },
        `code-many-${width}-${colorScheme}`,
      );
    },
  );

  it("opens the folders of the file that the address names, and goes back with the browser", async () => {
    const opened = await board.open("/runs/r1-digits?tab=code&file=lib/net/layers.py", {}, worldOf(many()));
    await soundly(opened, async ({ page }) => {
      await expect.poll(() => names(page), WAIT).toEqual(["data/part/", "lib/net/", "layers.py", "train.py"]);
      await tree(page).getByText("train.py").click();
      await page.getByRole("region", { name: "Text of train.py" }).waitFor();
      await page.goBack();
      await page.getByRole("region", { name: "Text of lib/net/layers.py" }).waitFor();
    });
  });

  it("has long lines that scroll, or wrap on request, which the browser remembers; each line keeps its number and its colours", async () => {
    const look = { viewport: { width: 390, height: 900 } };
    await soundly(await board.open("/runs/r1-digits?tab=code&file=train.py", look), async ({ page }) => {
      const text = page.getByRole("region", { name: "Text of train.py" });
      await text.locator(".hl-string").first().waitFor();
      const shown = await text.locator("pre").last().textContent();
      const isWide = () => text.evaluate((each) => each.scrollWidth > each.clientWidth);
      expect(await isWide()).toBe(true);
      const wrap = page.getByRole("button", { name: "Wrap" });
      await wrap.press("Enter");
      await expect.poll(isWide, WAIT).toBe(false);
      await page.reload();
      await text.locator(".code-line .hl-string").first().waitFor();
      expect(await wrap.getAttribute("aria-pressed")).toBe("true");
      expect((await text.locator("pre").textContent())?.trimEnd()).toBe(shown);
      expect(
        await text
          .locator(".code-line")
          .first()
          .evaluate((each) => each.getBoundingClientRect().height),
      ).toBeGreaterThan(30);
      await wrap.click();
      await expect.poll(isWide, WAIT).toBe(true);
    });
  });
});
