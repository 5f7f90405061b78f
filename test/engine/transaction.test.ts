import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { full, Harness, KILL, removeHomes, turn } from "./harness.ts";

let h: Harness;
beforeEach(async () => (h = await Harness.open()));
afterEach(() => h.end());
afterAll(removeHomes);

const commits = () => h.probes.filter((p) => p === "commit.after").length;

describe("commits of one turn", () => {
  it("share one transaction, and a failing caller does not affect the others", async () => {
    await h.create("a");
    await h.create("b");
    const before = commits();
    const ran: string[] = [];
    const results = await Promise.allSettled([
      h.engine.send("a", KILL),
      h.engine.commit((tx) => {
        tx.feed("a", "notice", { level: "info", message: "never" });
        tx.after(() => ran.push("never"));
        h.engine.apply(tx, "b", KILL);
        throw new SvcError("job_not_found", { id: "x" });
      }),
      h.engine.commit((tx) => tx.after(() => ran.push("mine"))),
    ]);
    await turn();
    expect(results.map((r) => r.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(ran).toEqual(["mine"]);
    expect([h.row("a").state, h.row("b").state]).toEqual(["terminating", "provisioning"]);
    expect(h.published.filter((e) => e.type === "notice")).toEqual([]);
    expect(commits() - before).toBe(1);
    // The failed caller's changes in memory are dropped, too.
    await h.kill("b");
    expect([h.row("b").seq, h.folds("a"), h.folds("b")]).toEqual([2, true, true]);
  });

  it("run again, each for itself, when one fails among callers that may run twice", async () => {
    await h.create("a");
    await h.create("b");
    await h.create("c");
    const before = commits();
    const ran: string[] = [];
    const kill = (id: string) =>
      h.engine.commitWithRetry((tx) => {
        ran.push(id);
        tx.feed(id, "notice", { level: "info", message: id });
        const sent = h.engine.apply(tx, id, KILL);
        if (id === "b") throw new SvcError("job_not_found", { id });
        return sent;
      });
    const results = await Promise.allSettled([kill("a"), kill("b"), kill("c")]);
    await turn();
    expect(ran).toEqual(["a", "b", "a", "b", "c"]);
    expect(results).toMatchObject([
      { value: { accepted: true } },
      { reason: { code: "job_not_found" } },
      { value: { accepted: true } },
    ]);
    expect(["a", "b", "c"].map((id) => h.row(id).state)).toEqual(["terminating", "provisioning", "terminating"]);
    // Neither the first try nor the failed caller left anything.
    expect(h.published.filter((e) => e.type === "notice").map((e) => e.job_id)).toEqual(["a", "c"]);
    expect(["a", "b", "c"].map((id) => h.row(id).seq)).toEqual([2, 1, 2]);
    expect(h.attempts.filter(({ context }) => context.signal.aborted).map(({ context }) => context.jobId)).toEqual([
      "a",
      "c",
    ]);
    expect(commits() - before).toBe(1);
    await h.kill("b");
    expect(["a", "b", "c"].map((id) => h.folds(id))).toEqual([true, true, true]);
  });

  it("each take place once if the disk is full in the middle of a group, and has room later", async () => {
    const ids = ["a", "b", "c"];
    for (const id of ids) await h.create(id);
    const limit = (pages: number) => h.store.db.pragma(`max_page_count = ${pages}`);
    limit(h.store.db.pragma("page_count", { simple: true }) as number);
    const kill = (id: string) =>
      h.engine.commitWithRetry((tx) => {
        if (id === "b") tx.feed(id, "notice", { level: "info", message: "x".repeat(1_000_000) });
        return h.engine.apply(tx, id, KILL);
      });
    const all = Promise.all(ids.map(kill));
    await turn();
    expect(h.row("b").state).toBe("provisioning");
    expect(h.reports.length).toBeGreaterThan(0);
    limit(1_000_000);
    await h.clock.advance(5_000);
    expect(await all).toMatchObject(ids.map(() => ({ accepted: true })));
    expect(ids.map((id) => [h.row(id).state, h.row(id).seq, h.folds(id)])).toEqual(
      ids.map(() => ["terminating", 2, true]),
    );
    for (const id of ids)
      expect(h.published.filter((e) => e.job_id === id && e.type === "job.transition")).toHaveLength(1);
    expect(h.published.map(({ seq }) => seq)).toEqual(h.published.map((_, n) => n + 1));
  });

  it("are done even if a listener to their events fails, which is reported", async () => {
    await h.end();
    const publish = () => {
      throw full();
    };
    h = await Harness.open({ engine: { publish } });
    await h.create("a");
    await h.kill("a");
    expect([h.row("a").state, h.attempt("terminate").context.jobId]).toEqual(["terminating", "a"]);
    expect(h.reports.length).toBeGreaterThanOrEqual(2);
  });

  it("all fail when the commit fails, their changes are undone, and cached state is dropped", async () => {
    await h.create("a");
    await h.create("b");
    h.onProbe = (point) => {
      if (point === "commit.before") throw full();
    };
    const results = await Promise.allSettled([h.engine.send("a", KILL), h.engine.send("b", KILL)]);
    await turn();
    expect(results).toMatchObject([{ reason: { code: "disk_full" } }, { reason: { code: "disk_full" } }]);
    expect([h.row("a").state, h.row("b").state]).toEqual(["provisioning", "provisioning"]);
    expect(h.attempts.every((a) => !a.context.signal.aborted && a.step === "provision")).toBe(true);
    h.onProbe = () => {};
    await h.kill("a");
    expect([h.row("a").state, h.row("a").seq, h.folds("a")]).toEqual(["terminating", 2, true]);
  });
});

describe("a rollback that fails", () => {
  it("leaves no caller without the first error, and is tried again before the next group", async () => {
    await h.create("a");
    const rollback = h.store.rollback.bind(h.store);
    h.store.rollback = () => {
      if (h.store.db.inTransaction) throw new RangeError("the rollback failed");
    };
    h.onProbe = (point) => {
      if (point === "commit.before") throw full();
    };
    await expect(h.engine.send("a", KILL)).rejects.toMatchObject({ code: "disk_full" });
    h.onProbe = () => {};
    await expect(h.engine.send("a", KILL)).rejects.toThrow("the rollback failed");
    h.store.rollback = rollback;
    await h.kill("a");
    expect([h.row("a").state, h.row("a").seq, h.folds("a")]).toEqual(["terminating", 2, true]);
  });

  it("in a group that starts again answers with the first error, too", async () => {
    await h.create("a");
    const rollback = h.store.rollback.bind(h.store);
    const failing = h.engine.commit(() => {
      h.store.rollback = () => {
        throw new RangeError("the rollback failed");
      };
      throw full();
    });
    await expect(failing).rejects.toMatchObject({ code: "disk_full" });
    h.store.rollback = rollback;
    await h.kill("a");
    expect([h.row("a").state, h.row("a").seq]).toEqual(["terminating", 2]);
  });
});

describe("commits that may wait", () => {
  /** Makes as many callers as can commit at once without waiting, so that the next one must wait. */
  async function exhaust(): Promise<void> {
    for (let i = 0; i < 64; i++) await h.engine.commit(() => undefined);
  }

  it("do not wait if nothing else is committed", async () => {
    await h.engine.commitTogether((tx) => tx.feed(null, "notice", {}));
    expect(commits()).toBe(1);
  });

  it("share one transaction for some milliseconds while groups follow each other closely", async () => {
    await exhaust();
    const before = commits();
    const done: number[] = [];
    const all = [0, 1, 2].map(async (i) => {
      await turn();
      await h.engine.commitTogether(() => undefined);
      done.push(i);
    });
    await h.clock.advance(0);
    await turn();
    expect([done, commits() - before]).toEqual([[], 0]);
    await h.clock.advance(25);
    await Promise.all(all);
    expect([done, commits() - before]).toEqual([[0, 1, 2], 1]);
    // After a while without commits no caller waits any more.
    await h.clock.advance(1_000);
    await h.engine.commitTogether(() => undefined);
    expect(commits() - before).toBe(2);
  });

  it("join one that may not wait, in the order of arrival", async () => {
    await exhaust();
    const before = commits();
    const order: string[] = [];
    const waits = h.engine.commitTogether(() => order.push("may wait"));
    await h.engine.commit(() => order.push("may not"));
    await waits;
    expect([order, commits() - before]).toEqual([["may wait", "may not"], 1]);
    // The timer that was set for it then finds nothing to do.
    await h.clock.advance(100);
    expect(commits() - before).toBe(1);
  });

  it("are committed when the process ends", async () => {
    await exhaust();
    const waits = h.engine.commitTogether((tx) => tx.feed(null, "notice", { message: "last" }));
    await h.engine.stop();
    await waits;
    expect(h.published.at(-1)?.data).toEqual({ message: "last" });
  });
});
