// Rules by time and metrics, and machines that cost money for nothing.

import { describe, expect, it } from "vitest";
import type { Transaction } from "../../src/engine/transaction.ts";
import { Watch } from "../../src/notify/watch.ts";
import { parseNotifyRule } from "../../src/schemas/notify-rule.ts";
import { SvcError } from "../../src/errors/index.ts";
import { SEARCHING_RULES } from "../engine/placement-rules.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { KILL } from "../engine/harness.ts";
import { NotifyWorld } from "./world.ts";

const MINUTE_MS = 60_000;

function watchOf(
  world: NotifyWorld,
  { own = [], configured = [] }: { own?: string[]; configured?: string[] } = {},
): Watch<Transaction> {
  const { engine, store, clock } = world.h;
  return new Watch<Transaction>({
    rows: world.rows,
    outbox: world.outbox,
    now: clock.now,
    commit: (fn) => engine.commit(fn),
    liveJobs: () => store.liveJobs(),
    closedAt: (jobId) => store.lastPlacement(jobId)?.closed_at ?? null,
    configured: () => configured,
    ownOf: (jobId) => (jobId === "job1" ? own : []),
    end: (tx, jobId) => void engine.apply(tx, jobId, KILL),
  });
}
const titles = (world: NotifyWorld): string[] =>
  world.service
    .notices({ limit: 50 })
    .notices.map(({ title }) => title)
    .toReversed();
const metrics = (name: string, value: number | "NaN") => ({
  kind: "metrics" as const,
  n: 1,
  step: 7,
  time: 0,
  rank: 0,
  values: [[name, value] as [string, number | "NaN"]],
  offset: 0,
});

describe("a rule", () => {
  it.each([
    ["loss > 10", { kind: "above", metric: "loss", bound: 10, or_equal: false, stop: false }],
    ["val/acc<=0.5, stop", { kind: "below", metric: "val/acc", bound: 0.5, or_equal: true, stop: true }],
    ["my loss >= 1e3", { kind: "above", metric: "my loss", bound: 1_000, or_equal: true }],
    ["loss is nan", { kind: "nan", metric: "loss" }],
    ["loss silent 2h", { kind: "silent", metric: "loss", minutes: 120 }],
    ["waiting 30m", { kind: "waiting", minutes: 30 }],
    ["no  checkpoint 90 min, stop", { kind: "no_checkpoint", minutes: 90, stop: true }],
  ])("is read from its line: %s", (line, rule) => expect(parseNotifyRule(line)).toMatchObject(rule));

  it.each(["", "loss", "loss > ten", "loss > NaN", "waiting 0m", "waiting 999h", "loss > 1e999", "stop", "> 3"])(
    "is refused with the reason: %j",
    (line) => expect(parseNotifyRule(line)).toBeTypeOf("string"),
  );

  it.each([
    "loss <> 3",
    "loss => 3",
    "loss =< 3",
    "loss >> 3",
    "loss !> 3",
    "= loss > 3",
    "loss == is nan",
    "loss > silent 20m",
  ])("with an operator that does not exist is refused with those that do: %s", (line) =>
    expect(parseNotifyRule(line)).toMatch(/the operators are >, >=, < and <=, as in /),
  );

  it("is refused by the service with its place in the list, and the rules stay", async () => {
    const world = await NotifyWorld.open();
    await expect(world.service.setRules(["waiting 5m", "loss ~ 3"])).rejects.toMatchObject({
      errors: [{ field: "rules[1]" }],
    });
    expect(world.service.overview().rules).toEqual(["waiting 30m"]);
  });

  it("about a metric reports once for a run, also after a restart", async () => {
    const world = await NotifyWorld.open();
    await world.service.setRules(["loss > 10"]);
    await world.h.create();
    for (const watch of [watchOf(world), watchOf(world)])
      for (const value of [3, 11, 12])
        await world.h.engine.commit((tx) => watch.points(tx, "job1", [metrics("loss", value), metrics("other", 99)]));
    expect(titles(world)).toEqual(["job1 meets the rule loss > 10"]);
  });

  it("with stop ends the run in the transaction of its notice", async () => {
    const world = await NotifyWorld.open();
    await world.service.setRules(["loss is nan, stop"]);
    await world.h.create();
    const watch = watchOf(world);
    await world.h.engine.commit((tx) => watch.points(tx, "job1", [metrics("loss", "NaN")]));
    expect(world.h.row().state).toBe("terminating");
    expect(titles(world)).toEqual(["job1 meets the rule loss is nan, stop"]);
  });

  it("applies, if it is a run's own, to that run alone, in addition to those of the home and of configure(), and counts once", async () => {
    const world = await NotifyWorld.open();
    await world.service.setRules(["loss > 10"]);
    await world.h.create("job1");
    await world.h.create("job2");
    const watch = watchOf(world, { own: ["acc < 0.1", "loss  > 10"], configured: ["loss is nan"] });
    for (const id of ["job1", "job2"])
      await world.h.engine.commit((tx) =>
        watch.points(tx, id, [metrics("acc", 0), metrics("loss", 11), metrics("loss", "NaN")]),
      );
    expect(titles(world)).toEqual([
      "job1 meets the rule acc < 0.1",
      "job1 meets the rule loss > 10",
      "job1 meets the rule loss is nan",
      "job2 meets the rule loss > 10",
      "job2 meets the rule loss is nan",
    ]);
  });

  it("about waiting reports when the time is over, and not again", async () => {
    const world = await NotifyWorld.open();
    await world.h.create();
    const watch = watchOf(world);
    await world.h.clock.advance(29 * MINUTE_MS);
    await watch.look();
    expect(titles(world)).toEqual([]);
    await world.h.clock.advance(2 * MINUTE_MS);
    await watch.look();
    await watch.look();
    expect(titles(world)).toEqual(["job1 has waited 30 min for a machine"]);
  });

  it("about waiting counts again from the end of a placement", async () => {
    const world = await NotifyWorld.open();
    await world.h.create("job1", { rules: SEARCHING_RULES, spec: { provider: "podhost", gpus: "A100" } });
    const watch = watchOf(world);
    await world.h.clock.advance(29 * MINUTE_MS);
    await watch.look();
    await world.h.attempt("place").done({ candidate: 0 });
    await watch.look();
    const refused = { provider: "podhost", gpus: "A100", why: "sold out" };
    await world.h.attempt("provision").fail(new SvcError("no_offer", refused, { retry: "never" }));
    await world.h.attempt("terminate").done({ checkpoint: null });
    await world.h.clock.advance(29 * MINUTE_MS);
    await watch.look();
    expect(titles(world)).toEqual([]);
    await world.h.clock.advance(2 * MINUTE_MS);
    await watch.look();
    expect(titles(world)).toEqual(["job1 has waited 30 min for a machine"]);
  });

  describe("by time, about a script,", () => {
    const LINES = ["loss silent 20m, stop", "no checkpoint 20m, stop"];
    const unreachable = new SvcError("ssh_unreachable", { machine: "m", why: "no network" });
    /** @param delayMs between two attempts to follow. */
    async function following(line: string, delayMs = 1_000): Promise<NotifyWorld> {
      const retry = { stream: { attemptsMax: 99, delayMsMin: delayMs, delayMsMax: delayMs } };
      const world = await NotifyWorld.open(undefined, { retry });
      await world.service.setRules([line]);
      await world.h.create();
      await world.h.upTo("stream");
      return world;
    }
    async function looks(
      world: NotifyWorld,
      watch: Watch<Transaction>,
      minutes: number,
      isReached = true,
    ): Promise<string> {
      for (let i = 0; i < 2 * minutes; i++) {
        const attempt = world.h.attempt("stream");
        if (isReached && !attempt.answered) attempt.context.progress({ log_bytes: i });
        await watch.look();
        await world.h.clock.advance(MINUTE_MS / 2);
      }
      await watch.look();
      return world.h.row().state;
    }

    it.each(LINES)("ends it at its time: %s", async (line) => {
      const world = await following(line);
      const watch = watchOf(world);
      expect(await looks(world, watch, 19)).toBe("running");
      expect(await looks(world, watch, 1)).toBe("terminating");
    });

    it.each(LINES)("counts no time in which this computer slept: %s", async (line) => {
      const world = await following(line);
      const watch = watchOf(world);
      await looks(world, watch, 10);
      await world.h.clock.jump(8 * 60 * MINUTE_MS);
      expect(await looks(world, watch, 19)).toBe("running");
      expect(await looks(world, watch, 1)).toBe("terminating");
    });

    it.each(LINES)("counts no time in which svc did not run: %s", async (line) => {
      const world = await following(line);
      await looks(world, watchOf(world), 10);
      await world.h.clock.advance(30 * MINUTE_MS);
      expect(await looks(world, watchOf(world), 19)).toBe("running");
    });

    it.each(LINES)("counts no time in which its machine could not be reached: %s", async (line) => {
      const world = await following(line, 3 * MINUTE_MS);
      const watch = watchOf(world);
      await looks(world, watch, 15);
      await world.h.attempt("stream").fail(unreachable);
      expect(await looks(world, watch, 21)).toBe("running");
      expect(await looks(world, watch, 6)).toBe("terminating");
    });

    it.each(LINES)(
      "counts the time before a break of the connection that was shorter than two minutes: %s",
      async (line) => {
        const world = await following(line);
        const watch = watchOf(world);
        for (const minutes of [7, 7]) {
          await looks(world, watch, minutes);
          await world.h.attempt("stream").fail(unreachable);
        }
        expect(await looks(world, watch, 5)).toBe("running");
        expect(await looks(world, watch, 2)).toBe("terminating");
      },
    );

    it.each(
      LINES.flatMap((line) => [
        { line, attempts: 60, minutes: 1, isReached: true },
        { line, attempts: 20, minutes: 3, isReached: false },
      ]),
    )(
      "counts $attempts attempts of $minutes min that reached nothing as a break: $line",
      async ({ line, attempts, minutes, isReached }) => {
        const world = await following(line);
        const watch = watchOf(world);
        await looks(world, watch, 15);
        for (let i = 0; i < attempts; i++) {
          await world.h.attempt("stream").fail(unreachable);
          expect(await looks(world, watch, minutes, isReached)).toBe("running");
        }
        await world.h.attempt("stream").fail(unreachable);
        expect(await looks(world, watch, 19)).toBe("running");
        expect(await looks(world, watch, 3)).toBe("terminating");
      },
    );
  });
});

describe("a machine that may cost money although no run needs it", () => {
  it("is reported, again and again, until its end is proven", async () => {
    const world = await NotifyWorld.open();
    const ledger = new DurableLedger(world.h.engine);
    const watch = watchOf(world);
    const handle = {
      v: 1,
      provider: "podhost",
      id: "pod1",
      name: "svc-1",
      node: 0,
      address: null,
      priceMicro: 2_000_000,
    } as unknown as Parameters<DurableLedger["adopt"]>[0];
    await ledger.adopt(handle, { kind: "orphan", message: "No run owns it." });
    await watch.look();
    expect(titles(world)).toEqual([]);
    const looks = async (minutes: number): Promise<void> => {
      for (let i = 0; i < minutes; i++) {
        await world.h.clock.advance(MINUTE_MS);
        await watch.look();
      }
    };
    await looks(2);
    expect(titles(world)).toEqual(["The machine svc-1 (podhost) may still cost money"]);
    await looks(20);
    await looks(65);
    expect(titles(world)).toHaveLength(3);
    expect(titles(world).at(-1)).toBe("The machine svc-1 (podhost) may still cost money, reported 3 times");
    await ledger.released("svc-1", "the provider says that it does not exist");
    await looks(200);
    expect(titles(world)).toHaveLength(4);
    expect(titles(world).at(-1)).toBe("The machine svc-1 (podhost) is gone and costs nothing more");
  });
});
