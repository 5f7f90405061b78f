import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { DurableLedger } from "../../src/engine/ledger.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { Harness, removeHomes, START } from "./harness.ts";

const HOUR_MS = 3_600_000;
let h: Harness;
let ledger: DurableLedger;
beforeEach(async () => {
  h = await Harness.open();
  ledger = new DurableLedger(h.engine);
});
afterEach(() => h.end());
afterAll(removeHomes);

const handle = (more: Partial<MachineHandle> = {}): MachineHandle => ({
  v: 1,
  provider: "podhost",
  id: "pod-1",
  name: "svc-test-job1-n0-1",
  address: "10.0.0.1",
  priceMicro: 2_000_000,
  ...more,
});
const NAME = handle().name;
const order = { name: NAME, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START + 60_000 };
const notes = () => h.published.filter((e) => e.type === "machine.changed").map((e) => e.data["state"]);

describe("an order", () => {
  it("is open from its intent to the proof that it is gone, and the feed reports each change", async () => {
    expect([ledger.open("job1", 0), ledger.nextOrdinal("job1", 0)]).toEqual([[], 1]);
    await ledger.intend(order);
    expect(ledger.open("job1", 0)).toMatchObject([
      { name: NAME, state: "intended", handle: null, horizonAt: START + 60_000, emptyLooks: 0 },
    ]);
    expect(ledger.nextOrdinal("job1", 0)).toBe(2);
    await ledger.held(NAME, handle());
    expect(ledger.open("job1", 0)).toMatchObject([{ state: "held", handle: handle() }]);
    await ledger.releasing(NAME);
    await ledger.released(NAME, "seen to be gone");
    expect(ledger.open("job1", 0)).toEqual([]);
    expect(ledger.row(NAME)).toMatchObject({ state: "released", proof: "seen to be gone", released_at: START });
    expect(notes()).toEqual(["intended", "held", "releasing", "released"]);
    expect(ledger.nextOrdinal("job1", 0)).toBe(2);
  });

  it("cannot be made twice under one name", async () => {
    await ledger.intend(order);
    await expect(ledger.intend(order)).rejects.toThrow("UNIQUE constraint failed");
    expect(ledger.owed()).toHaveLength(1);
  });

  it("An order that was closed as absent is owed again when its answer arrives late", async () => {
    await ledger.intend(order);
    await ledger.unknown(NAME, { kind: "order_unknown", message: "the answer was lost" });
    await ledger.released(NAME, "not in two listings");
    await ledger.held(NAME, handle());
    expect(ledger.open("job1", 0)).toMatchObject([{ state: "held" }]);
    expect(ledger.row(NAME)).toMatchObject({ released_at: null, proof: null });
  });

  it("stays releasing when a late answer arrives, so that no run uses it", async () => {
    await ledger.intend(order);
    await ledger.releasing(NAME);
    await ledger.held(NAME, handle());
    expect(ledger.row(NAME)?.state).toBe("releasing");
  });

  it("does not become unknown once it is held", async () => {
    await ledger.intend(order);
    await ledger.held(NAME, handle());
    await ledger.unknown(NAME, { kind: "order_unknown", message: "too late" });
    expect(ledger.row(NAME)).toMatchObject({ state: "held", note: null });
  });

  it("counts empty listings, and remembers the last one", async () => {
    await ledger.intend(order);
    expect([await ledger.emptyLook(NAME), await ledger.emptyLook(NAME)]).toEqual([1, 2]);
    expect(ledger.open("job1", 0)).toMatchObject([{ emptyLooks: 2, lastLookAt: START }]);
  });

  it("cannot be closed without a proof, not even by SQL", async () => {
    await ledger.intend(order);
    expect(() => h.store.db.exec("UPDATE machine SET state = 'released', released_at = 1")).toThrow(/CHECK/);
  });
});

describe("a machine", () => {
  it.each([Number.NaN, undefined, -1, 0.5, Infinity])(
    "whose price is said to be %s is held all the same",
    async (price) => {
      await ledger.intend(order);
      await ledger.held(NAME, handle({ priceMicro: price as number }));
      expect(ledger.row(NAME)).toMatchObject({ state: "held", resource_id: "pod-1" });
      const recorded = ledger.row(NAME)?.price_micro ?? null;
      expect(recorded === null || (Number.isInteger(recorded) && recorded >= 0)).toBe(true);
    },
  );

  const cost = () => h.reads.job("job1")?.cost_usd;

  it("costs from its order to the moment it was proven gone, even after a late answer", async () => {
    await h.create();
    await ledger.intend(order);
    await h.clock.advance(HOUR_MS);
    expect(cost()).toBe(0);
    await ledger.held(NAME, handle());
    await h.clock.advance(HOUR_MS / 2);
    expect(cost()).toBe(3);
    await ledger.releasing(NAME);
    await h.clock.advance(HOUR_MS / 2);
    await ledger.released(NAME, "gone");
    await h.clock.advance(HOUR_MS);
    expect(cost()).toBe(4);
  });

  it("costs each price for as long as it was the price", async () => {
    await h.create();
    await ledger.intend(order);
    await ledger.held(NAME, handle({ priceMicro: null }));
    await h.clock.advance(HOUR_MS);
    expect(cost()).toBe(0);
    // A price that is reported late applies to the whole time.
    await ledger.known(NAME, handle({ priceMicro: 2_000_000 }));
    expect(cost()).toBe(2);
    await h.clock.advance(HOUR_MS);
    await ledger.known(NAME, handle({ priceMicro: 10_000_000 }));
    await h.clock.advance(HOUR_MS);
    await ledger.known(NAME, handle({ priceMicro: null }));
    await h.clock.advance(HOUR_MS);
    expect(cost()).toBe(2 + 2 + 10 + 10);
    await ledger.released(NAME, "gone");
    await ledger.known(NAME, handle({ priceMicro: 99_000_000 }));
    await h.clock.advance(HOUR_MS);
    expect(cost()).toBe(24);
  });

  it("counts the whole price after the last look that saw a cheaper machine", async () => {
    await h.create();
    await ledger.intend(order);
    await ledger.held(NAME, handle({ priceMicro: 2_000_000, billedMicro: 500_000 }));
    const cost = () => h.reads.job("job1")?.cost_usd;
    await h.clock.advance(HOUR_MS);
    expect(cost()).toBe(2);
    await ledger.cheaper(NAME, h.clock.now());
    expect([cost(), ledger.row(NAME)?.price_micro]).toEqual([0.5, 2_000_000]);
    const asked = h.clock.now();
    await h.clock.advance(HOUR_MS);
    // An answer that took an hour says nothing about that hour, whatever the clock did meanwhile.
    for (const until of [asked, asked - HOUR_MS]) await ledger.cheaper(NAME, until);
    expect(cost()).toBe(2.5);
    await ledger.released(NAME, "gone");
    await ledger.cheaper(NAME, h.clock.now());
    expect(cost()).toBe(2.5);
  });

  it("counts the whole price of the second machine of one order, whatever was seen of the first", async () => {
    await h.create();
    await ledger.intend(order);
    await ledger.held(NAME, handle({ priceMicro: 2_000_000, billedMicro: 500_000 }));
    await h.clock.advance(HOUR_MS);
    await ledger.cheaper(NAME, h.clock.now());
    expect(h.reads.job("job1")?.cost_usd).toBe(0.5);
    await ledger.held(NAME, handle({ id: "the-second", priceMicro: 3_000_000, billedMicro: 500_000 }));
    expect(h.reads.job("job1")?.cost_usd).toBe(3);
  });

  it.each([
    [{ priceMicro: 2_000_000 }, 2],
    [{ priceMicro: 2_000_000, billedMicro: 3_000_000 }, 2],
    [{ priceMicro: 2_000_000, billedMicro: Number.NaN }, 2],
    [{ priceMicro: null, billedMicro: 1_000_000 }, 0],
  ])("counts the prices %j in a cheaper hour as $%d", async (prices, usd) => {
    await h.create();
    await ledger.intend(order);
    await ledger.held(NAME, handle(prices));
    await h.clock.advance(HOUR_MS);
    await ledger.cheaper(NAME, h.clock.now() + HOUR_MS);
    expect(h.reads.job("job1")?.cost_usd).toBe(usd);
  });

  it("calls only a higher whole price a raise, not the end of the time in which the disk alone is billed", async () => {
    await h.create();
    await ledger.intend(order);
    await ledger.held(NAME, handle({ priceMicro: 2_000_000, billedMicro: 10_000 }));
    const raised = () =>
      h.store.db.prepare<[], string>("SELECT data FROM feed WHERE type = 'price.raised'").pluck().all();
    await ledger.known(NAME, handle({ priceMicro: 2_000_000 }));
    expect([ledger.row(NAME)?.price_micro, raised()]).toEqual([2_000_000, []]);
    await ledger.known(NAME, handle({ priceMicro: 3_000_000 }));
    expect(raised()).toEqual([expect.stringContaining("costs $3.00 an hour instead of $2.00")]);
  });

  it("keeps its cost when a sweep adopts it again", async () => {
    await h.create();
    await ledger.intend(order);
    await ledger.held(NAME, handle());
    await h.clock.advance(HOUR_MS);
    await ledger.released(NAME, "gone");
    await ledger.adopt(handle(), { kind: "orphan", message: "listed again" });
    await ledger.released(NAME, "gone");
    expect(h.reads.job("job1")?.cost_usd).toBe(2);
  });

  it("A machine without a row gets one, and svc owes its release", async () => {
    const note = { kind: "orphan", message: "no run owns it" } as const;
    await ledger.adopt(handle({ name: "svc-test-unheard" }), note);
    expect(ledger.owed()).toMatchObject([{ name: "svc-test-unheard", state: "held", job_id: null }]);
    expect(h.reads.machines()).toMatchObject([{ name: "svc-test-unheard", note }]);
  });

  it.each([
    ["held", "disk_full"],
    ["releasing", "terminating"],
    ["unknown", "order_unknown"],
  ])("The note that an older version stored of a %s machine reads as %s", async (state, kind) => {
    await h.create();
    await ledger.intend(order);
    const message = 'The words of "an older version".';
    h.store.db.prepare("UPDATE machine SET state = ?, note = ?").run(state, message);
    expect(h.reads.job("job1")?.note).toEqual({ kind, message });
    expect(h.reads.machines()).toMatchObject([{ note: { kind, message } }]);
  });

  it("is recorded even while the disk is full", async () => {
    await ledger.intend(order);
    let full = 3;
    h.onProbe = (point) => {
      if (point === "commit.before" && full-- > 0) throw Object.assign(new Error("full"), { code: "SQLITE_FULL" });
    };
    const held = ledger.held(NAME, handle());
    await h.clock.advance(10_000);
    await held;
    expect(ledger.row(NAME)?.state).toBe("held");
  });

  it("is not requested while the disk is full: a failed intent is a refusal", async () => {
    h.onProbe = (point) => {
      if (point === "commit.before") throw Object.assign(new Error("full"), { code: "SQLITE_FULL" });
    };
    await expect(ledger.intend(order)).rejects.toMatchObject({ code: "disk_full" });
  });
});
