// The files that were left out of a run's code, in a browser: next to a run's files, and in the preview of a new run. And deleting a run from its
// own page.

import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectAccessible, type Opened } from "./browser.ts";
import { fakeAnswers } from "./fake-answers.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeWorld } from "./fake-world.ts";
import { HOSTILE } from "./hostile.ts";

const WAIT = { timeout: DEADLINE_MS };
const LEFT_OUT = {
  count: 5,
  names: [
    { path: "lib", why: "the symlink leads out of the project, to /opt/lib" },
    { path: HOSTILE, why: "it may hold a secret; `!name` in a .svcignore takes it back" },
  ],
  ignored: 3,
};

describe("the dashboard", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withPage = async (
    path: string,
    use: (opened: Opened) => Promise<void>,
    world: FakeWorld = fakeWorld(),
    /** Messages that the browser itself may print. */
    expected: RegExp = /^$/,
  ) => {
    const opened = await board.open(path, {}, world);
    try {
      await opened.page.waitForSelector(".connection-live");
      await use(opened);
      expect(await opened.page.evaluate(() => "hacked" in globalThis)).toBe(false);
      expect((await opened.complaints()).filter((each) => !expected.test(each))).toEqual([]);
    } finally {
      await opened.close();
    }
  };
  const withLeftOut = (): FakeWorld => {
    const world = fakeWorld();
    for (const { record } of world.runs) record.left_out = LEFT_OUT;
    return world;
  };
  const folded = ({ page }: Opened) => page.locator("details", { hasText: "Left out of the code" });

  it("names the files left out of a run's code when the list is opened, and the number of further ones", () =>
    withPage(
      "/runs/r2-failed?tab=code",
      async (opened) => {
        const list = folded(opened);
        await expect.poll(() => list.locator("summary").textContent(), WAIT).toContain("Left out of the code: 5");
        expect(await list.locator("summary").textContent()).toContain("and what git ignores (3)");
        expect(await list.locator("li").first().isVisible()).toBe(false);
        await list.locator("summary").click();
        await list.getByText("the symlink leads out of the project, to /opt/lib").waitFor(WAIT);
        const items = await list.locator("li").allTextContents();
        expect(items).toHaveLength(3);
        expect(items[0]).toContain("lib");
        expect(items[1]).toContain(HOSTILE);
        expect(items[2]).toBe("and 3 more");
        // Text for the person to type appears as code.
        expect(await list.locator("code").allTextContents()).toEqual(["!name"]);
        await expectAccessible(opened.page);
      },
      withLeftOut(),
    ));

  it("has no such list if no file was left out", () =>
    withPage("/runs/r2-failed?tab=code", async (opened) => {
      await opened.page.getByRole("region", { name: "Files" }).getByText("run.sh").waitFor(WAIT);
      expect(await folded(opened).count()).toBe(0);
    }));

  it("names the files that a new run would leave out in its preview, before anything starts", async () => {
    const world = fakeWorld();
    const plan = fakeAnswers()["plan"] as (body: unknown) => { code: object };
    world.answers = {
      ...world.answers,
      plan: (body: unknown) => {
        const answer = plan(body);
        return { ...answer, code: { ...answer.code, left_out: LEFT_OUT } };
      },
    };
    await withPage(
      "/new?entrypoint=train.py&provider=market&gpus=A100:1",
      async (opened) => {
        const list = opened.page.getByRole("region", { name: "Cost preview" }).locator("details", {
          hasText: "Left out of the code",
        });
        await list.locator("summary").click(WAIT);
        await list.getByText("the symlink leads out of the project, to /opt/lib").waitFor(WAIT);
        await expectAccessible(opened.page);
      },
      world,
    );
  });

  const deletes = ({ server }: Opened) =>
    server.seen.filter((each) => each.method === "DELETE").map((each) => each.path);

  it("deletes an ended run from its own page after it has named its size, and returns to the list", () =>
    withPage("/runs/r2-failed", async (opened) => {
      const { page } = opened;
      const dialog = page.getByRole("dialog");
      const begin = () => page.getByRole("button", { name: "Delete", exact: true }).click(WAIT);
      await begin();
      await dialog.waitFor(WAIT);
      const words = (await dialog.textContent()) ?? "";
      for (const told of ["Delete 1 run?", "r2-failed", "12 MB", "This cannot be undone."])
        expect(words).toContain(told);
      await expectAccessible(page);
      await dialog.getByRole("button", { name: "Keep" }).click();
      await dialog.waitFor({ state: "detached", ...WAIT });
      expect(deletes(opened)).toEqual([]);
      await begin();
      await dialog.getByRole("button", { name: "Delete 1 run" }).click();
      await expect.poll(() => new URL(page.url()).pathname, WAIT).toBe("/");
      expect(deletes(opened)).toEqual(["/jobs/r2-failed"]);
      await page.waitForSelector("text=digits, two hidden layers", WAIT);
      expect(await page.locator('[id="run-r2-failed"]').count()).toBe(0);
    }));

  it("stays on the page that was opened while a run was being deleted", () =>
    withPage("/runs/r2-failed", async (opened) => {
      const { page } = opened;
      const [held, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      await page.route("**/jobs/r2-failed", async (route) => {
        if (route.request().method() === "DELETE") {
          begun.resolve();
          await held.promise;
        }
        await route.continue();
      });
      await page.getByRole("button", { name: "Delete", exact: true }).click(WAIT);
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Delete 1 run" }).click(WAIT);
      await begun.promise;
      await dialog.getByRole("button", { name: "Keep" }).click();
      await page.getByRole("link", { name: "Machines", exact: true }).click(WAIT);
      const answered = page.waitForResponse((answer) => answer.request().method() === "DELETE");
      held.resolve();
      await (await answered).finished();
      // The page has seen that answer before this one.
      await page.evaluate(() => fetch("/v1/machines").then((answer) => answer.text()));
      expect([deletes(opened), new URL(page.url()).pathname]).toEqual([["/jobs/r2-failed"], "/machines"]);
    }));

  it("says why a run could not be deleted, and stays on its page", () =>
    withPage(
      "/runs/r2-failed",
      async (opened) => {
        const { page } = opened;
        const refusal = {
          type: "about:blank",
          title: "Conflict",
          status: 409,
          code: "job_not_removable",
          detail: "The run r2-failed cannot be removed: 2 of its files are still being copied to s3://b/r.",
          hint: "Wait until they are copied.",
        };
        await page.route("**/jobs/r2-failed", (route) =>
          route.request().method() === "DELETE"
            ? route.fulfill({ status: 409, contentType: "application/problem+json", body: JSON.stringify(refusal) })
            : route.continue(),
        );
        await page.getByRole("button", { name: "Delete", exact: true }).click(WAIT);
        const dialog = page.getByRole("dialog");
        await dialog.getByRole("button", { name: "Delete 1 run" }).click(WAIT);
        await dialog.getByText("1 run could not be deleted:").waitFor(WAIT);
        await dialog.getByText("2 of its files are still being copied").waitFor(WAIT);
        await expectAccessible(page);
        await dialog.getByRole("button", { name: "Keep" }).click();
        expect(new URL(page.url()).pathname).toBe("/runs/r2-failed");
      },
      fakeWorld(),
      /409/,
    ));

  it("offers Kill and no Delete for an active run", () =>
    withPage("/runs/r1-digits", async ({ page }) => {
      await page.getByRole("button", { name: "Kill", exact: true }).waitFor(WAIT);
      expect(await page.getByRole("button", { name: "Delete", exact: true }).count()).toBe(0);
    }));
});
