import { describe, expect, it } from "vitest";
import { deliveryWords, failingTargets, ruleWords } from "../../dashboard/src/notify/notice-words.ts";
import type { Delivery } from "../../src/schemas/notify.ts";
import { NOTICE_KINDS, TARGET_KINDS } from "../../src/schemas/notify-names.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { dashboard, expectAccessible, type Opened } from "./browser.ts";
import { fakeNotifications, notice, Refusal, shownTarget } from "./fake-notify.ts";
import { fakeWorld, HOSTILE } from "./fake-world.ts";

const WAIT = { timeout: DEADLINE_MS };

describe("notifications in words", () => {
  const waiting: Delivery = {
    id: "d",
    target: "phone",
    job_id: null,
    kind: "finished",
    title: "t",
    state: "waiting",
    attempts: 2,
    error: "It answered 503",
    created_at: new Date(0).toISOString(),
    next_attempt_at: new Date(60_000).toISOString(),
    ended_at: null,
  };

  it("tell what became of a message and what happens next", () => {
    const told = (rest: Partial<Delivery> = {}, now = 0, others: Delivery[] = []) =>
      deliveryWords({ ...waiting, ...rest }, now, failingTargets(others)).words;
    expect(told()).toBe("retrying in 1 min 0 s, 2 attempts so far");
    expect(told({}, 61_000)).toBe("retrying now, 2 attempts so far");
    expect(told({ attempts: 0 })).toBe("being sent");
    expect(told({ attempts: 0 }, 0, [waiting])).toBe("waits for the message before it");
    expect(told({ attempts: 0, target: "team" }, 0, [waiting])).toBe("being sent");
    expect(told({ state: "sent" })).toBe("delivered after 2 attempts");
    expect(told({ state: "gave_up", attempts: 1 })).toBe("failed");
  });

  it("tell what svc understands of a rule", () => {
    expect(ruleWords("loss > 10, stop").words).toBe("Reports a run whose loss is above 10, and ends it like a kill.");
    expect(ruleWords("no checkpoint 1h").words).toContain("saves no checkpoint for 60 minutes");
    expect(ruleWords("whenever").isWrong).toBe(true);
  });
});

describe("notifications in the dashboard", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  const withPage = async (
    path: string,
    use: (opened: Opened) => Promise<void>,
    { answers = {}, width = 1440, refused = "" }: { answers?: object; width?: number; refused?: string } = {},
  ) => {
    const world = fakeWorld();
    world.answers = { ...world.answers, ...answers };
    const opened = await board.open(path, { viewport: { width, height: 900 } }, world);
    opened.page.setDefaultTimeout(DEADLINE_MS);
    try {
      await opened.page.waitForSelector(".connection-live");
      await use(opened);
      await expectAccessible(opened.page);
      expect(await opened.page.evaluate(() => "hacked" in globalThis)).toBe(false);
      const complaints = await opened.complaints();
      expect(complaints.filter((each) => refused === "" || !each.includes(refused))).toEqual([]);
    } finally {
      await opened.close();
    }
  };
  const sent = ({ server }: Opened, method: string) =>
    server.seen.filter((each) => each.method === method).map(({ path, body }) => [path, body]);

  it("counts what is unread in the bell, and counts again after an event", () => {
    let unread = 3;
    return withPage(
      "/",
      async ({ page, server }) => {
        await page.getByRole("link", { name: "Notifications, 3 unread" }).waitFor();
        unread = 120;
        server.emit("job.transition", "r1-digits", { to: "terminal", status: "succeeded" });
        await page.getByRole("link", { name: "Notifications, 120 unread" }).waitFor();
        expect(await page.locator(".bell-count").innerText()).toBe("99+");
        await page.keyboard.press("g");
        await page.keyboard.press("n");
        await page.getByRole("heading", { name: "Notifications" }).waitFor();
      },
      { answers: { notifications: () => ({ ...fakeNotifications(), unread }) } },
    );
  });

  it("marks as read what it shows, and keeps the marks in view", () =>
    withPage("/notifications", async (opened) => {
      const { page } = opened;
      await page.getByText("svc-r5-ending-0 may cost money").first().waitFor();
      await expect.poll(() => sent(opened, "POST"), WAIT).toEqual([["/v1/notices/read", { up_to: 6 }]]);
      expect(await page.locator(".notice-fresh").count()).toBe(3);
      await page.getByRole("link", { name: "Notifications", exact: true }).waitFor();
    }));

  it("tells of each message where it went, what the target said and when svc tries again, also on a phone", async () => {
    for (const width of [1440, 390])
      await withPage(
        "/notifications",
        async ({ page }) => {
          const messages = page.getByRole("region", { name: "Messages" });
          for (const words of ["to team: retrying in", "It answered 503:", "failed. It answered 400: invalid_token"])
            await expect.poll(() => messages.innerText(), WAIT).toContain(words);
          await messages.getByText("delivered after 2 attempts").waitFor();
          expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
        },
        { width },
      );
  });

  it("shows in the tab what is unread, how the shown run stands, and a machine that no run needs", () => {
    let unread = 3;
    const answers = {
      notifications: () => ({ ...fakeNotifications(), unread }),
      "notices/read": () => ({ unread: (unread = 0) }),
    };
    const use = async ({ page, server }: Opened) => {
      const icon = async () => decodeURIComponent((await page.locator("link[rel=icon]").getAttribute("href")) ?? "");
      await expect.poll(() => page.title(), WAIT).toBe("(3) ✓ baseline sweep 3 · svc");
      // The machine of another run is being released without end.
      await expect.poll(icon, WAIT).toMatch(/<rect[^>]*#c3352e.*<circle[^>]*#1d7a46/);
      server.world.machines = [];
      server.emit("machine.changed", "r5-ending");
      await expect.poll(icon, WAIT).toMatch(/<rect[^>]*#2f5fd0/);
      await page.locator(".bell").click();
      await expect.poll(() => page.title(), WAIT).toBe("Notifications · svc");
      await expect.poll(icon, WAIT).not.toContain("<circle");
    };
    return withPage("/runs/r4-long", use, { answers });
  });

  it("leads to the target that a link names, and keeps a title in its order", () =>
    withPage("/notifications", async ({ page }) => {
      expect(await page.locator("main").innerText()).not.toContain("\u202E");
      await page.getByRole("link", { name: "team" }).click();
      await page.locator("#target-team").getByText("The newest message did not arrive").waitFor();
      await expect
        .poll(() => page.locator("#target-team > summary").evaluate((e) => e.getBoundingClientRect().top), WAIT)
        .toBeLessThan(900);
    }));

  it("says how to add a target while there is none", () =>
    withPage(
      "/notifications",
      async ({ page }) => {
        await page.getByText("No message leaves this computer yet.").waitFor();
        await page.getByRole("link", { name: "Add a target" }).click();
        await page.locator("#notify-new").getByText("Save and send a test").waitFor();
      },
      {
        answers: {
          notifications: { targets: [], rules: [], registry_rules: [], unread: 0, latest: 0 },
          notices: { notices: [] },
        },
      },
    ));

  it("has a form for each kind of target, with its own fields", () =>
    withPage("/connect?open=notify-new", async ({ page }) => {
      const card = page.locator("#notify-new");
      const fields = {
        ntfy: "Topic",
        slack: "Address of the incoming webhook",
        discord: "Address of the channel’s webhook",
        webhook: "Key that signs the messages",
        email: "SMTP host",
        desktop: "The desktop of this computer",
        command: "Program and arguments",
      };
      for (const kind of TARGET_KINDS) {
        await card.getByLabel("Kind").selectOption(kind);
        await card.getByText(fields[kind]).first().waitFor();
      }
      expect(await card.locator("input[type=password]").count()).toBe(0);
    }));

  it("adds a target with its secret, sends a test, and forgets the secret", () => {
    const answers = {
      "notifications/targets/mail": () => shownTarget("mail"),
      "notifications/targets/mail/test": { sent: true, seconds: 1.234 },
    };
    return withPage(
      "/connect?open=notify-new",
      async (opened) => {
        const card = opened.page.locator("#notify-new");
        await card.getByLabel("Kind").selectOption("email");
        await card.getByLabel("Name").fill("mail");
        await card.getByLabel("SMTP host").fill("smtp.example.com");
        await card.getByLabel("From").fill("me@example.com");
        await card.getByLabel("Recipients").fill("me@example.com\nyou@example.com");
        await card.getByLabel("Password of the mail account").fill("a mail secret");
        await card.getByText("Receives everything").click();
        await card.getByLabel("A run saves no checkpoint").uncheck();
        expect(await card.getByLabel("A machine may cost money and no run needs it").isDisabled()).toBe(true);
        await card.getByRole("button", { name: "Save and send a test" }).click();
        await card.getByText("Saved as mail. The target accepted a test message after 1.2 s").waitFor();
        const [[path, body] = []] = sent(opened, "PUT");
        expect(path).toBe("/v1/notifications/targets/mail");
        expect(body).toMatchObject({
          secret: "a mail secret",
          target: {
            kind: "email",
            host: "smtp.example.com",
            port: 587,
            from: "me@example.com",
            to: ["me@example.com", "you@example.com"],
          },
        });
        const { events } = (body as { target: { events: string[] } }).target;
        expect(events.toSorted()).toEqual(NOTICE_KINDS.filter((kind) => kind !== "no_checkpoint").toSorted());
        expect(await card.getByLabel("Password of the mail account").inputValue()).toBe("");
        expect(await opened.page.content()).not.toContain("a mail secret");
      },
      { answers },
    );
  });

  it("forgets a typed secret when another kind of target is chosen", () =>
    withPage("/connect?open=notify-new", async ({ page }) => {
      const card = page.locator("#notify-new");
      await card.getByLabel("Kind").selectOption("slack");
      await card.getByLabel("Address of the incoming webhook").fill("https://hooks.slack.com/services/T/B/secret");
      await card.getByLabel("Kind").selectOption("ntfy");
      expect(await card.getByLabel("Access token").inputValue()).toBe("");
    }));

  it("shows the refusal of each field, and a failed test in the words of the target", () =>
    withPage(
      "/connect?open=notify-new",
      async ({ page, server }) => {
        const card = page.locator("#notify-new");
        await card.getByRole("button", { name: "Save", exact: true }).click();
        await card.locator(".field-error", { hasText: "must be 1 to 64 letters" }).waitFor();
        server.world.answers = {
          ...server.world.answers,
          "notifications/targets/-": shownTarget("late"),
          "notifications/targets/late/test": new Refusal(502, "notify_refused", `The target refuses: ${HOSTILE}`),
        };
        await card.getByRole("button", { name: "Save and send a test" }).click();
        await card.getByText("Saved as late.").waitFor();
        await card.getByText("The target refuses:").waitFor();
      },
      {
        answers: {
          "notifications/targets/-": new Refusal(400, "invalid_request", "The target is not valid.", [
            { field: "target.topic", message: "must be 1 to 64 letters, digits, - or _" },
          ]),
        },
        refused: "Failed to load resource",
      },
    ));

  it("tests and removes a target after a question, and leaves those of configure() alone", () =>
    withPage("/connect?open=target-phone", async (opened) => {
      const { page, server } = opened;
      const card = page.locator("#target-phone");
      await card.getByRole("button", { name: "Send a test", exact: true }).click();
      await card.getByText("The target accepted a test message after 0.4 s").waitFor();
      server.world.answers = { ...server.world.answers, "notifications/targets/phone": { removed: "phone" } };
      await card.getByRole("button", { name: "Remove…" }).click();
      expect(sent(opened, "DELETE")).toEqual([]);
      await card.getByRole("button", { name: "Remove the target" }).click();
      await expect.poll(() => sent(opened, "DELETE"), WAIT).toEqual([["/v1/notifications/targets/phone", null]]);
      await page.goto(`${opened.base}/connect?open=target-fixed`);
      await page.getByText("Set by configure()").waitFor();
      expect(await page.locator("#target-fixed").getByRole("button", { name: "Save" }).count()).toBe(0);
    }));

  it("says what svc understands of each rule before they are saved", () =>
    withPage("/connect?open=notify-rules", async (opened) => {
      const { page } = opened;
      const text = page.getByLabel("Rules of all runs, one a line");
      await text.fill(`loss > 10\n${HOSTILE} is odd\nloss is nan, stop`);
      await page.getByText("Reports a run whose loss is above 10.").waitFor();
      await page.locator(".rule-words .bad", { hasText: "is odd” is not a rule" }).waitFor();
      await text.fill("loss > 10\n\nloss is nan, stop");
      await page.getByRole("button", { name: "Save rules" }).click();
      await expect
        .poll(() => sent(opened, "PUT"), WAIT)
        .toEqual([["/v1/notifications/rules", { rules: ["loss > 10", "loss is nan, stop"] }]]);
    }));

  it("shows a notice of the browser when a run ends, once it is allowed", () => {
    let latest = 6;
    const fresh = notice(7, "finished", "digits succeeded", { text: "after 4 min" });
    const old = notice(6, "failed", "an old one");
    const answers = {
      notifications: () => ({ ...fakeNotifications(), latest }),
      notices: () => ({ notices: latest > 6 ? [fresh, old] : [old], unread: 1, next_cursor: null }),
    };
    return withPage(
      "/notifications",
      async ({ page, server }) => {
        await page.evaluate(() => {
          const shown: unknown[] = [];
          class Shown {
            static readonly permission = "granted";
            constructor(title: string, options: { tag: string; body: string }) {
              shown.push([title, options.tag, options.body]);
            }
            close(): void {}
          }
          Object.assign(globalThis, { Notification: Shown, shown });
          document.hasFocus = () => false;
        });
        const shown = () => page.evaluate(() => (globalThis as unknown as { shown: unknown[] }).shown);
        await page.getByRole("link", { name: "Runs", exact: true }).click();
        await page.locator(".bell").click();
        const box = page.getByLabel("Notifications of this browser");
        expect(await box.isChecked()).toBe(false);
        await box.check();
        latest = 7;
        server.emit("job.transition", "r1-digits", { to: "terminal", status: "succeeded" });
        await expect.poll(shown, WAIT).toEqual([["digits succeeded", "svc-notice-7", "after 4 min"]]);
        await box.uncheck();
      },
      { answers },
    );
  });
});
