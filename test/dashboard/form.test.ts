import { describe, expect, it } from "vitest";
import { OFFERS_KNOWN_MS } from "../../src/domain/unknown-offers.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectAccessible, soundly, type Opened } from "./browser.ts";
import { fakeAnswers } from "./fake-answers.ts";
import { Refusal } from "./fake-notify.ts";
import { fakeRun, fakeWorld } from "./fake-world.ts";
import { HOSTILE } from "./hostile.ts";

const WAIT = { timeout: DEADLINE_MS };

describe("the form of a new run", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withPage = async (path: string, use: (opened: Opened) => Promise<void>) => {
    const opened = await board.open(path, { viewport: { width: 1440, height: 1000 } });
    try {
      await opened.page.waitForSelector(".connection-live");
      await use(opened);
      await expectAccessible(opened.page);
      expect(await opened.page.evaluate(() => "hacked" in globalThis)).toBe(false);
      expect(await opened.complaints()).toEqual([]);
    } finally {
      await opened.close();
    }
  };
  const jobsSent = (opened: Opened) =>
    opened.server.seen.filter((each) => each.path === "/jobs" && each.method === "POST");

  it("shows price, offers, files and what will stop the run before anything is started", () =>
    withPage("/new?entrypoint=train.py&provider=market", async (opened) => {
      const { page } = opened;
      await page.getByRole("button", { name: "A100 80 GB" }).click();
      expect(await page.getByLabel("GPUs").inputValue()).toBe("A100:1");
      await page.getByRole("button", { name: "Start run, $1.50/h" }).waitFor();
      const plan = page.getByRole("region", { name: "Cost preview" });
      const words = (await plan.textContent()) ?? "";
      for (const told of [
        "$1.50/h",
        "3 files, 2.5 MB",
        "2 offers now",
        "this one",
        "41 of 43 good, 74 s to SSH",
        "tried last: its host was unfit 2 days ago",
        "Without a time limit",
        "The script ends",
      ])
        expect(words).toContain(told);
      await page.getByLabel("Price cap").fill("1");
      await plan.getByText("This run would be refused").waitFor();
      await plan.getByText("The machine costs more.").waitFor();
      expect(jobsSent(opened)).toEqual([]);
    }));

  it("keeps the plan readable while it is being updated", () =>
    withPage("/new?entrypoint=train.py&provider=market", async ({ page }) => {
      await page.locator(".plan .facts").waitFor(WAIT);
      await page.locator('.plan[aria-busy="false"]').waitFor(WAIT);
      await page.evaluate(() => document.querySelector(".plan")?.setAttribute("aria-busy", "true"));
    }));

  it("keeps a setting of rented machines in view that a provider without them refuses", () =>
    withPage("/new?entrypoint=train.py&provider=market&gpus=A100:1&spot=only", async ({ page }) => {
      const part = page.locator("summary", { hasText: "If a machine is lost or none is free" });
      await part.waitFor(WAIT);
      await page.getByLabel("Provider", { exact: true }).selectOption("local");
      await part.getByText("(1 set)").waitFor(WAIT);
      await part.click();
      await page.getByLabel("Spot").selectOption("never");
    }));

  it("keeps such a setting in view while it is emptied, and the focus in it", () =>
    withPage("/new?entrypoint=train.py&provider=market&gpus=A100:1&wait_for_capacity_minutes=30", async ({ page }) => {
      await page.getByLabel("Provider", { exact: true }).selectOption("local");
      const part = page.locator("summary", { hasText: "If a machine is lost or none is free" });
      await part.click();
      const wait = page.getByLabel("Wait for capacity");
      await wait.fill("");
      await part.getByText("(1 set)").waitFor({ state: "detached", ...WAIT });
      await page.keyboard.type("5");
      expect(await wait.inputValue()).toBe("5");
    }));

  it("says how to copy the code where the browser has no clipboard", () =>
    withPage("/new?entrypoint=train.py", async ({ page }) => {
      // As at http://192.168.1.2: the clipboard needs a secure context.
      await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
      await page
        .getByRole("button", { name: /^Copy / })
        .first()
        .click();
      await page.getByText("select it and copy").waitFor(WAIT);
    }));

  it("asks for a GPU if the provider requires one, and shows errors at each field", () =>
    withPage("/new?entrypoint=train.py", async (opened) => {
      const { page, server } = opened;
      const gpus = page.getByLabel("GPUs");
      const plan = page.getByRole("region", { name: "Cost preview" });
      server.world.answers = {
        ...server.world.answers,
        plan: (body: { spec: { gpus?: string } }) => ({
          ...(fakeAnswers()["plan"] as (body: unknown) => object)(body),
          refusals: body.spec.gpus
            ? []
            : [
                {
                  code: "gpus_unsupported",
                  message: "must name a GPU: market rents no machines without one",
                  hint: "See `svc gpus`.",
                  field: "spec.gpus",
                },
              ],
        }),
      };
      expect(await gpus.inputValue()).toBe("cpu");
      await page.getByLabel("Provider").selectOption("market");
      expect(await gpus.inputValue()).toBe("");
      await plan.getByText("GPUs must name a GPU: market rents no machines without one. See svc gpus.").waitFor();
      expect(await gpus.getAttribute("aria-invalid")).toBe("true");
      await page.getByRole("button", { name: "A100 80 GB" }).click();
      await expect.poll(() => gpus.getAttribute("aria-invalid"), WAIT).toBeNull();
      const cap = page.getByLabel("Price cap");
      await cap.fill("abc");
      await page.locator("#field-price_cap-error").getByText("must be a number").waitFor();
      expect(await cap.getAttribute("aria-invalid")).toBe("true");
      await page.getByText("Correct these fields first: Price cap.").waitFor();
      await cap.fill("2");
      await page.getByRole("region", { name: "the run in Python" }).getByText("price_cap=2").waitFor();
      await gpus.fill("cpu");
      await page.getByLabel("Provider").selectOption("local");
      expect(await gpus.inputValue()).toBe("cpu");
      await plan.getByText("up to date").waitFor();
    }));

  it("says of an open quote what is wrong with it, also after the server has refused the arguments", async () => {
    const opened = await board.open("/new?entrypoint=train.py");
    const { page, server } = opened;
    try {
      await page.waitForSelector(".connection-live");
      const told = fakeAnswers()["plan"] as (body: unknown) => object;
      const errors = [{ field: "spec.args", message: "must be a list, not text" }];
      server.world.answers = {
        ...server.world.answers,
        plan: (body: { spec: { args?: unknown } }) =>
          typeof body.spec.args === "string" ? new Refusal(400, "invalid_request", "spec.args", errors) : told(body),
      };
      const error = page.locator("#field-args-error");
      const plan = page.getByRole("region", { name: "Cost preview" });
      await page.getByLabel("Arguments").fill("--name 'first");
      await plan.getByText("Arguments must not leave a quote open.").waitFor(WAIT);
      expect(await error.textContent()).toBe("must not leave a quote open");
      await page.getByRole("button", { name: "Start run" }).click();
      await page.getByText("To correct: Arguments.").waitFor(WAIT);
      expect(await error.textContent()).toBe("must not leave a quote open");
      await page.getByLabel("Arguments").fill("--name 'first try'");
      await error.waitFor({ state: "detached" });
    } finally {
      await opened.close();
    }
  });

  it("asks for the plan again, once, when a candidate's offers were not known yet", () =>
    withPage("/new?entrypoint=train.py&provider=market", async ({ page, server }) => {
      const answer = fakeAnswers()["plan"] as (body: unknown) => { candidates: object[] };
      let plans = 0;
      const refusal = { code: "offers_unknown", message: "market is still searching", hint: "", field: null };
      server.world.answers = {
        ...server.world.answers,
        plan: (body: { spec: { gpus?: string } }) => {
          const told = answer(body);
          if (body.spec.gpus !== "A100:1" || ++plans > 1) return told;
          const candidates = told.candidates.map((one) => ({ ...one, refusal, offers_total: 0 }));
          return { ...told, candidates, offers: [], offers_total: 0, price_per_hour_usd: null };
        },
      };
      await page.clock.install();
      await page.getByRole("button", { name: "A100 80 GB" }).click();
      await page.clock.runFor(1_000);
      await expect.poll(() => plans, WAIT).toBe(1);
      const preview = page.getByRole("region", { name: "Cost preview" });
      await preview.getByText("up to date").waitFor();
      const priced = page.getByRole("button", { name: "Start run, $1.50/h" });
      expect(await priced.count()).toBe(0);
      await page.clock.runFor(OFFERS_KNOWN_MS - 1_000);
      expect(plans).toBe(1);
      await page.clock.runFor(1_000);
      await priced.waitFor();
      // Every offer is known now.
      await page.clock.runFor(3 * OFFERS_KNOWN_MS);
      expect(plans).toBe(2);
    }));

  it("shows the same run as Python, TypeScript and curl, with any text as a literal", () =>
    withPage(
      `/new?${new URLSearchParams({ entrypoint: "train.py", label: `it's "${HOSTILE}` }).toString()}`,
      async ({ page }) => {
        const code = page.getByRole("region", { name: /^the run in/ });
        const text = async () => (await code.textContent()) ?? "";
        await code.waitFor();
        const label = JSON.stringify(`it's "${HOSTILE}`).replace("\u202e", "\\u202e");
        expect(await text()).toContain(`label=${label}`);
        await page.getByText("TypeScript", { exact: true }).click();
        await expect.poll(text, WAIT).toContain(`label: ${label}`);
        await page.getByText("curl", { exact: true }).click();
        await expect.poll(text, WAIT).toContain(String.raw`it'\''s`);
      },
    ));

  it("asks again for the secrets of an earlier run", () =>
    withPage("/new?from=r1-digits", async ({ page }) => {
      await page.getByText("Set again under Environment: TOKEN.").waitFor();
      await page.locator("summary", { hasText: "Environment" }).click();
      expect(await page.getByLabel("Environment").inputValue()).not.toContain("TOKEN");
    }));

  it("is one click away from the error of a script that failed", async () => {
    const error = {
      code: "script_failed",
      message: "The script ended with exit code 1.",
      hint: "Try a smaller batch.",
    };
    const run = fakeRun("r-failed", 60, { status: "failed", label: "a large batch", error });
    const world = fakeWorld();
    world.runs.push(run);
    await soundly(await board.open("/runs/r-failed", {}, world), async ({ page }) => {
      const banner = page.locator(".banner-bad");
      await banner.getByText("Try a smaller batch.").waitFor(WAIT);
      expect(await banner.getByRole("link", { name: "See its errors" }).getAttribute("href")).toContain("errors=1");
      await banner.getByRole("link", { name: "run it again with changes" }).click();
      await page.getByText("From a large batch").waitFor(WAIT);
    });
  });
});
