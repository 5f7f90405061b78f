// Messages follow rows: a notice exists exactly if its event does, and every message reaches its target at least once.

import { createHmac } from "node:crypto";
import { describe, expect, it, vi } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { noticeMessage } from "../../src/notify/message.ts";
import { Outbox } from "../../src/notify/outbox.ts";
import { BURST, GIVE_UP_MS, BEHIND_MS } from "../../src/notify/notifier.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { full, KILL, turn } from "../engine/harness.ts";
import { NotifyWorld, Receiver } from "./world.ts";

const SECRET = "the key of the hook";

describe("a notice", () => {
  it("is committed with the end of the run, and delivered with status, cause, cost and the next command", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    await world.addWebhook("hook", receiver);
    world.notifier.begin();
    await world.h.create();
    await world.h.engine.send("job1", KILL);
    await (await world.h.upTo("terminate")).done();
    await receiver.received(1);
    expect(receiver.json(0)).toMatchObject({
      kind: "finished",
      title: "job1 was cancelled",
      level: "info",
      run: { id: "job1", status: "cancelled", cost_usd: 0 },
      next: ["svc logs job1"],
    });
    expect(receiver.json(0)["text"]).toMatch(/^Cause: .+\nStatus: cancelled\n(.+\n)*Cost: \$0\.00\n/);
    await world.settled();
    expect(world.states()).toEqual([{ target: "hook", state: "sent", attempts: 1, kind: "finished" }]);
    expect(world.service.overview().unread).toBe(1);
  });

  it("says at the end how long the script took, and which files are lost with the machine", async () => {
    const world = await NotifyWorld.open();
    await world.h.create();
    await world.h.upTo("stream");
    await world.h.clock.advance(600);
    const collect = await world.h.upTo("collect");
    const warnings = ["The script saved files outside.", "Second.", "Third.", "Fourth.", "Fifth."];
    await collect.done({ exit_code: null }, { warnings });
    await (await world.h.upTo("terminate")).done();
    const [row] = world.rows.notices([1]);
    const parts = { reads: world.h.reads, rows: world.rows, redactor: () => new Redactor([]), now: world.h.clock.now };
    const { facts } = noticeMessage("m1", row!, parts);
    expect(facts).toContainEqual({ name: "Status", value: "succeeded, exit code 0, after 0.60 s" });
    expect(facts.filter(({ name }) => name === "Warning").map(({ value }) => value)).toEqual([
      ...warnings.slice(0, 3),
      "2 more are on the page of the run.",
    ]);
  });

  it("does not exist when the transaction of its event fails", async () => {
    const world = await NotifyWorld.open();
    world.h.onProbe = (point) => {
      if (point === "commit.before") throw full();
    };
    await expect(world.tell("reports: gone")).rejects.toMatchObject({ code: "disk_full" });
    world.h.onProbe = () => undefined;
    expect(world.service.notices({ limit: 10 }).notices).toEqual([]);
  });

  it("wakes the notifier once its transaction is durable, and not before", async () => {
    const world = await NotifyWorld.open();
    const woken = vi.fn();
    const outbox = new Outbox(world.rows, woken);
    await world.h.engine.commit((tx) => {
      outbox.add(tx, { job_id: null, kind: "stuck", words: "is stuck" });
      expect(woken).not.toHaveBeenCalled();
    });
    expect(woken).toHaveBeenCalledOnce();
    world.h.onProbe = (point) => {
      if (point === "commit.before") throw full();
    };
    const failed = world.h.engine.commit((tx) => outbox.add(tx, { job_id: null, kind: "stuck", words: "is stuck" }));
    await expect(failed).rejects.toMatchObject({ code: "disk_full" });
    expect(woken).toHaveBeenCalledOnce();
  });

  it("costs the transaction of its event one insert, however many targets it has", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    for (const name of ["a", "b", "c"]) await world.addWebhook(name, receiver);
    const changes = (): unknown => world.h.store.db.prepare("SELECT total_changes()").pluck().get();
    const cost = await world.h.engine.commit((tx) => {
      const before = Number(changes());
      world.outbox.heard(tx, { job_id: null, type: "alert", data: { message: "the loss is odd" } });
      const after = Number(changes());
      world.outbox.heard(tx, { job_id: null, type: "step.started", data: {} });
      return [after - before, Number(changes()) - after];
    });
    expect(cost).toEqual([1, 0]);
  });

  it("becomes a message of bounded size, however long its texts are", async () => {
    const world = await NotifyWorld.open();
    await world.tell("x".repeat(50_000));
    const [row] = world.rows.notices([1]);
    const parts = { reads: world.h.reads, rows: world.rows, redactor: () => new Redactor([]), now: world.h.clock.now };
    const { title, facts } = noticeMessage("m1", row!, parts);
    expect([title.length, facts.map(({ value }) => value.length)]).toEqual([200, [1_000]]);
  });

  it("is recorded once for one key", async () => {
    const world = await NotifyWorld.open();
    const add = () =>
      world.h.engine.commit((tx) => world.outbox.add(tx, { job_id: null, kind: "stuck", words: "is stuck", key: "k" }));
    expect([await add(), await add()]).toEqual([true, false]);
    expect(world.service.notices({ limit: 10 }).notices).toHaveLength(1);
  });

  it("reports the end of a budget once, although the budget may later end the downloads, too", async () => {
    const world = await NotifyWorld.open();
    await world.h.create();
    for (const ends of ["script", "downloads"])
      await world.h.engine.commit((tx) => tx.feed("job1", "budget.reached", { ends, error: null }));
    const { notices } = world.service.notices({ limit: 10 });
    expect(notices.map(({ kind }) => kind)).toEqual(["budget_100"]);
  });

  it("is unread until it is marked, and a mark never moves back", async () => {
    const world = await NotifyWorld.open();
    for (const n of [1, 2, 3]) await world.tell(`reports: ${n}`);
    expect(await world.service.markRead(2)).toBe(1);
    expect(await world.service.markRead(1)).toBe(1);
    expect(await world.service.markRead(9_999)).toBe(0);
    await world.tell("reports: 4");
    expect(world.service.overview()).toMatchObject({ unread: 1, latest: 4 });
  });
});

describe("a delivery", () => {
  it("is made by the next process if this one ends between the event and the message", async () => {
    const [before, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    await before.addWebhook("hook", receiver);
    // This process never begins to send: it is killed right after the commit.
    await before.tell("reports: it is done");
    const after = await NotifyWorld.open(before);
    after.notifier.begin();
    await receiver.received(1);
    expect(receiver.json(0)).toMatchObject({ title: "svc reports: it is done" });
  });

  it("is repeated with the same id when the answer was lost, and each attempt has its own signature", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    receiver.answers = ["reset", { status: 503 }];
    await world.addWebhook("hook", receiver, SECRET);
    world.notifier.begin();
    await world.tell("reports: once");
    await receiver.received(1);
    await expect.poll(() => world.states()[0]?.attempts, { timeout: DEADLINE_MS }).toBe(1);
    await world.h.clock.advance(2_000);
    await receiver.received(2);
    await expect.poll(() => world.states()[0]?.attempts, { timeout: DEADLINE_MS }).toBe(2);
    await world.h.clock.advance(4_000);
    await receiver.received(3);
    await world.settled();
    const ids = receiver.got.map(({ headers }) => headers["svc-id"]);
    expect(new Set(ids).size).toBe(1);
    expect(new Set(receiver.got.map(({ headers }) => headers["svc-timestamp"])).size).toBe(3);
    for (const { headers, body } of receiver.got) {
      const signature = createHmac("sha256", SECRET)
        .update(`${String(headers["svc-timestamp"])}.${body}`)
        .digest("hex");
      expect(headers["svc-signature"]).toBe(`v1=${signature}`);
    }
    expect(world.states()).toEqual([{ target: "hook", state: "sent", attempts: 3, kind: "alert" }]);
  });

  it("does not wait for another target that hangs", async () => {
    const [world, hanging, healthy] = [await NotifyWorld.open(), await Receiver.open(), await Receiver.open()];
    hanging.answers = ["hang"];
    await world.addWebhook("hanging", hanging);
    await world.addWebhook("healthy", healthy);
    world.notifier.begin();
    await world.tell("reports: hello");
    await healthy.received(1);
    await expect
      .poll(() => world.states().find((s) => s.target === "healthy")?.state, { timeout: DEADLINE_MS })
      .toBe("sent");
    expect(world.states().find((s) => s.target === "hanging")?.state).toBe("waiting");
  });

  it("ends each attempt after 15 s, although the target hangs", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    const time = new AbortController();
    const timeout = vi.spyOn(AbortSignal, "timeout").mockReturnValue(time.signal);
    try {
      receiver.answers = ["hang"];
      await world.addWebhook("hook", receiver);
      world.notifier.begin();
      await world.tell("reports: hello");
      await receiver.received(1);
      expect(timeout).toHaveBeenCalledWith(15_000);
      time.abort(new Error("the time is over"));
      await expect
        .poll(() => world.states()[0], { timeout: DEADLINE_MS })
        .toMatchObject({ state: "waiting", attempts: 1 });
    } finally {
      timeout.mockRestore();
    }
  });

  it.each([
    ["in seconds", { "retry-after": "120" }],
    ["by a date", { date: "Sun, 01 Nov 2026 12:00:00 GMT", "retry-after": "Sun, 01 Nov 2026 12:02:00 GMT" }],
  ])("waits as long as the target asks %s", async (_, headers) => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    receiver.answers = [{ status: 429, headers }];
    await world.addWebhook("hook", receiver);
    world.notifier.begin();
    await world.tell("reports: slowly");
    await receiver.received(1);
    await expect.poll(() => world.states()[0]?.attempts, { timeout: DEADLINE_MS }).toBe(1);
    await world.h.clock.advance(119_000);
    expect(receiver.got).toHaveLength(1);
    await world.h.clock.advance(2_000);
    await receiver.received(2);
  });

  it("is not repeated if the target refuses it for good, and the next one goes out", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    receiver.answers = [{ status: 400, body: "no such field" }];
    await world.addWebhook("hook", receiver);
    world.notifier.begin();
    await world.tell("reports: bad");
    await world.settled();
    await world.h.clock.advance(1_000);
    await world.tell("reports: good");
    await world.settled();
    expect(world.states().map(({ state }) => state)).toEqual(["gave_up", "sent"]);
    expect(world.service.overview().targets[0]).toMatchObject({ error: null, waiting: 0 });
  });

  it("is given up after a day of failures", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    receiver.answers = Array.from({ length: 200 }, () => ({ status: 500 }));
    await world.addWebhook("hook", receiver);
    world.notifier.begin();
    await world.tell("reports: nobody listens");
    await receiver.received(1);
    await expect.poll(() => world.states()[0]?.attempts, { timeout: DEADLINE_MS }).toBe(1);
    for (let hours = 0; hours < 27 && world.states()[0]?.state === "waiting"; hours++) {
      const before = receiver.got.length;
      await world.h.clock.advance(3_600_000);
      await receiver.received(before + 1);
      await expect.poll(() => world.states()[0]?.attempts, { timeout: DEADLINE_MS }).toBe(receiver.got.length);
    }
    expect(world.states()[0]?.state).toBe("gave_up");
    const { created_at, ended_at } = world.service.deliveries({ limit: 1 }).deliveries[0]!;
    expect(Date.parse(ended_at ?? "") - Date.parse(created_at)).toBeGreaterThanOrEqual(GIVE_UP_MS);
  });

  it("becomes one digest if more than ten are due in a minute", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    await world.addWebhook("hook", receiver);
    for (let n = 0; n < BURST + 15; n++) await world.tell(`reports: ${n}`);
    world.notifier.begin();
    await world.settled();
    expect(receiver.got).toHaveLength(1);
    expect(receiver.json(0)).toMatchObject({ kind: "digest", title: "svc: 25 notifications in one message" });
    expect(receiver.json(0)["events"]).toHaveLength(21);
    expect(JSON.stringify(receiver.json(0)["events"])).toContain("and 5 more");
    expect(world.states().filter(({ state }) => state === "merged")).toHaveLength(25);
  });

  it("is held back after ten in a minute, and nothing that came meanwhile is lost", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    await world.addWebhook("hook", receiver);
    world.notifier.begin();
    for (let n = 0; n < BURST; n++) {
      await world.tell(`reports: ${n}`);
      await world.settled();
    }
    for (let n = 0; n < 15; n++) await world.tell(`reports: later ${n}`);
    await turn();
    expect(receiver.got).toHaveLength(BURST);
    await world.h.clock.advance(61_000);
    await world.settled();
    expect(receiver.got).toHaveLength(BURST + 1);
    expect(receiver.json(BURST)).toMatchObject({ kind: "digest", title: "svc: 15 notifications in one message" });
  });

  it("becomes one message with the present state after hours offline", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    receiver.answers = Array.from({ length: 3 }, () => "reset" as const);
    await world.addWebhook("hook", receiver);
    world.notifier.begin();
    await world.tell("reports: first");
    await receiver.received(1);
    await world.tell("reports: second");
    await world.tell("reports: third");
    await expect.poll(() => world.states()[0]?.attempts, { timeout: DEADLINE_MS }).toBe(1);
    await world.h.clock.jump(BEHIND_MS + 60_000);
    await world.h.clock.advance(60_000);
    await receiver.received(2);
    await world.h.clock.advance(60_000);
    await receiver.received(4);
    await world.settled();
    expect(receiver.got).toHaveLength(4);
    expect(receiver.json(3)).toMatchObject({ kind: "digest" });
    expect(world.states().filter(({ state }) => state === "sent")).toHaveLength(1);
  });

  it("disappears with its run, and a message about a removed run is not sent", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    await world.addWebhook("hook", receiver);
    await world.tell("reports: soon gone", "job9");
    world.h.store.db.exec("DELETE FROM notice");
    world.notifier.begin();
    await turn();
    expect(receiver.got).toEqual([]);
  });

  it("has a bounded history", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    await world.addWebhook("hook", receiver);
    world.notifier.begin();
    for (let n = 0; n < 6; n++) {
      await world.tell(`reports: ${n}`);
      await world.settled();
      await world.h.clock.advance(1_000);
    }
    await world.h.engine.commit(() => world.rows.prune({ before: 0, kept: 3 }));
    expect(world.service.notices({ limit: 50 }).notices.map(({ title }) => title)).toEqual(
      [5, 4, 3].map((n) => `svc reports: ${n}`),
    );
    expect(world.service.deliveries({ limit: 50 }).deliveries).toHaveLength(3);
    await world.h.engine.commit(() => world.rows.prune({ before: world.h.clock.now(), kept: 3 }));
    expect(world.service.notices({ limit: 50 }).notices).toEqual([]);
  });
});

describe("the list of deliveries and notices", () => {
  it("is read in pages without a gap", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    await world.addWebhook("hook", receiver);
    world.notifier.begin();
    for (let n = 0; n < 7; n++) await world.tell(`reports: ${n}`);
    await world.settled();
    const titles: string[] = [];
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page = world.service.deliveries({ limit: 3, ...(cursor === undefined ? {} : { cursor }) });
      titles.push(...page.deliveries.map(({ title }) => title));
      cursor = page.next_cursor;
    }
    expect(titles.toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6].map((n) => `svc reports: ${n}`));
  });
});
