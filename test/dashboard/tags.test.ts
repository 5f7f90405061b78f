// Tags of runs: in the list, as its filter, on a run's page and in the form of a new run.

import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectAccessible, soundly, takePicture, type Opened } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, fakeWorld } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };

function tagged(): FakeWorld {
  const tags = [["paper", "lr=0.1"], ["paper"], []];
  const runs = ["one", "two", "three"].map((label, i) =>
    fakeRun(`a${i}-${label}`, 500 + i, { label, tags: tags[i] ?? [] }),
  );
  return { ...fakeWorld(), runs, machines: [] };
}

describe("tags", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const looks = [
    { width: 1440, height: 900, colorScheme: "light" as const },
    { width: 390, height: 840, colorScheme: "dark" as const },
  ];
  const onEach = async (name: string, path: string, use: (opened: Opened) => Promise<void>) => {
    for (const { colorScheme, ...viewport } of looks) {
      const opened = await board.open(path, { viewport, colorScheme }, tagged());
      await soundly(opened, () => use(opened), `${name}-${viewport.width}-${colorScheme}`);
    }
  };

  it("in a row narrow the list to the runs that have them, and the address keeps the choice", () =>
    onEach("tags-list", "/?status=succeeded", async ({ page }) => {
      await page.locator("#run-a2-three").waitFor(WAIT);
      await takePicture(page, `tags-rows-${page.viewportSize()?.width}`);
      await page.getByRole("link", { name: "paper" }).first().click();
      await page.locator("#run-a2-three").waitFor({ ...WAIT, state: "detached" });
      await page.getByText("2 runs", { exact: true }).waitFor(WAIT);
      await page.getByRole("link", { name: "lr=0.1", exact: true }).click();
      await page.getByText("1 run", { exact: true }).waitFor(WAIT);
      // A tag is shown as it was written; statuses begin with a capital letter.
      const first = page.getByRole("link", { name: /^paper.*: a tag/ });
      expect(await first.evaluate((each) => getComputedStyle(each, "::first-letter").textTransform)).toBe("none");
      expect(new URL(page.url()).search).toBe("?status=succeeded&tag=paper%2Clr%3D0.1");
      await expectAccessible(page);
      await takePicture(page, `tags-filter-${page.viewportSize()?.width}`);
      await page.reload();
      await page.locator("#run-a0-one").waitFor(WAIT);
      await page.getByText("1 run", { exact: true }).waitFor(WAIT);
      await page.getByRole("link", { name: /^paper.*: a tag that all these runs have/ }).click();
      await page.getByRole("link", { name: /^lr=0.1.*: a tag/ }).click();
      await page.getByText("3 runs", { exact: true }).waitFor(WAIT);
    }));

  it("are added to the selected runs and removed from them", () =>
    onEach("tags-dialog", "/", async ({ page, server }) => {
      for (const name of ["one", "three"]) await page.getByLabel(`Select ${name} `).click();
      await page.getByRole("button", { name: "Tags…" }).click();
      await page.getByLabel("Add").fill("draft, paper draft");
      await page.getByRole("button", { name: "lr=0.1 1" }).click();
      await expectAccessible(page);
      await takePicture(page, `tags-dialog-${page.viewportSize()?.width}`);
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("dialog").waitFor({ ...WAIT, state: "detached" });
      expect(["a0-one", "a1-two", "a2-three"].map((id) => server.run(id).record.tags)).toEqual([
        ["paper", "draft"],
        ["paper"],
        ["draft", "paper"],
      ]);
      await page.getByRole("link", { name: "draft" }).first().waitFor(WAIT);
    }));

  it("are changed on a run's page, and an event says how", () =>
    onEach("tags-run", "/runs/a0-one", async ({ page, server }) => {
      await page.getByRole("link", { name: "lr=0.1", exact: true }).waitFor(WAIT);
      await page.getByRole("button", { name: "Edit" }).click();
      expect(await page.getByRole("textbox", { name: "Tags" }).inputValue()).toBe("paper, lr=0.1");
      await page.getByRole("textbox", { name: "Tags" }).fill("paper camera-ready");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("link", { name: "camera-ready" }).waitFor(WAIT);
      expect(server.run("a0-one").record.tags).toEqual(["paper", "camera-ready"]);
      await expectAccessible(page);
      await takePicture(page, `tags-run-${page.viewportSize()?.width}`);
      await page.getByRole("link", { name: "camera-ready" }).click();
      await page.getByText("1 run", { exact: true }).waitFor(WAIT);
    }));

  it("of a run are those of its rerun, unless they are changed in the form", () =>
    onEach("tags-form", "/new?from=a0-one", async ({ page, server }) => {
      await page.getByRole("textbox", { name: "Tags" }).waitFor(WAIT);
      expect(await page.getByRole("textbox", { name: "Tags" }).inputValue()).toBe("paper, lr=0.1");
      await page.getByRole("textbox", { name: "Tags" }).fill("paper, again");
      await page.getByRole("button", { name: /^Start/ }).click();
      await page.getByRole("link", { name: "again" }).waitFor(WAIT);
      const posted = server.seen.find(({ method, path }) => method === "POST" && path === "/jobs");
      expect(posted?.body).toMatchObject({ tags: ["paper", "again"] });
    }));
});
