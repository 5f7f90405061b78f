import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { provisionStep } from "../../src/steps/provision.ts";
import { terminateStep } from "../../src/steps/terminate.ts";
import { SvcError } from "../../src/errors/index.ts";
import { inPart } from "../../src/providers/provider.ts";
import { nodePrefix } from "../../src/domain/machine-names.ts";
import { INSTALLATION, removeHomes } from "../engine/harness.ts";
import { down } from "../engine/small-cloud.ts";
import { Rent } from "./rent.ts";
import { noteOfMachine } from "../../src/store/stored-note.ts";

let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

const terminate = () => rent.run(terminateStep);
const note = () => {
  const row = rent.ledger.row(rent.name(1));
  return row ? noteOfMachine(row) : null;
};

describe("the release of machines", () => {
  it("is done when the provider says that the machine is gone, and lists nothing more", async () => {
    await rent.run(provisionStep);
    expect(await terminate()).toEqual({ done: { checkpoint: null }, detail: { released: [rent.name(1)] } });
    expect([rent.states(), rent.cloud.machines]).toEqual([["1 released"], []]);
    expect(rent.cloud.calls.slice(-3)).toEqual(["terminate pod-1", "inspect pod-1", "list"]);
  });

  it("reports that no more data arrives once no machine is left, and not before", async () => {
    const silent: string[] = [];
    rent.ports.silent = (jobId, node) => Promise.resolve(void silent.push(`${jobId} ${node}`));
    await rent.run(provisionStep);
    rent.cloud.lies = true;
    expect(await terminate()).toHaveProperty("later");
    expect(silent).toEqual([]);
    rent.cloud.lies = false;
    expect(await terminate()).toHaveProperty("done");
    expect(silent).toEqual(["job1 0"]);
  });

  it("closes the connection at once, so that nothing renews the lease while the provider fails, and the guard can end the machine", async () => {
    const closed: string[] = [];
    rent.ports.gone = (machine) => void closed.push(machine);
    await rent.run(provisionStep);
    rent.cloud.before = (call) => {
      if (call.startsWith("terminate")) throw down();
    };
    await expect(terminate()).rejects.toMatchObject({ code: "provider_error" });
    expect([rent.states(), closed]).toEqual([["1 releasing"], [rent.name(1)]]);
  });

  it("is polled soon at first, and less often if the machine stays", async () => {
    await rent.run(provisionStep);
    rent.cloud.lies = true;
    const step = terminateStep(rent.ports);
    const waits: number[] = [];
    for (let look = 0; look < 12; look++) {
      const result = await rent.run(() => step);
      if ("later" in result) waits.push(result.later.afterMs);
    }
    expect([waits.length, waits[0], waits.at(-1)]).toEqual([12, 3_000, 10_000]);
    expect(waits).toEqual(waits.toSorted((a, b) => a - b));
  });

  it("may be requested again when it is done", async () => {
    await rent.run(provisionStep);
    await terminate();
    expect(await terminate()).toMatchObject({ done: {} });
  });

  it("lists machines even without an order", async () => {
    expect(await terminate()).toMatchObject({ done: {} });
    expect(rent.cloud.calls).toEqual(["list"]);
  });

  it.each([
    "credential_missing",
    "credential_refused",
    "provider_unavailable",
    "provider_unreachable",
    "provider_error",
  ] as const)(
    "ends at once without an order if the provider cannot be reached (%s), and waits if there is an order",
    async (code) => {
      const no = () => {
        throw new SvcError(code, { provider: "podhost", why: "no", missing: "PODHOST_API_KEY" });
      };
      rent.cloud.before = no;
      expect(await terminate()).toMatchObject({ done: {} });
      rent.cloud.before = () => {};
      await rent.run(provisionStep);
      rent.cloud.before = no;
      await expect(terminate()).rejects.toMatchObject({ code });
    },
  );

  it("is not done when a provider accepts the request: while the provider lists the machine, svc asks again", async () => {
    await rent.run(provisionStep);
    rent.cloud.lies = true;
    expect(await terminate()).toMatchObject({ later: { why: expect.stringContaining("yet to confirm") as string } });
    expect(note()).toBeNull();
    for (let i = 1; i < 5; i++) expect(await terminate()).toMatchObject({ later: {} });
    expect([rent.states(), note()]).toEqual([
      ["1 releasing"],
      { kind: "still_listed", message: expect.stringContaining("may still cost money") as string },
    ]);
    expect(rent.cloud.calls.filter((c) => c.startsWith("terminate"))).toHaveLength(5);
    rent.cloud.lies = false;
    expect(await terminate()).toMatchObject({ done: {} });
    expect([rent.states(), note()]).toEqual([["1 released"], null]);
  });

  it("reports the provider's message about the machine", async () => {
    await rent.run(provisionStep);
    const inspect = vi.spyOn(rent.cloud, "inspect");
    inspect.mockResolvedValue({ phase: "starting", why: "the provider does not show it any more" });
    await terminate();
    const words = expect.stringMatching(/may still cost money: the provider does not show it any more\. /) as string;
    expect(await terminate()).toMatchObject({ later: { why: words } });
    expect(note()).toEqual({ kind: "still_listed", message: words });
    inspect.mockResolvedValue({ phase: "ready", address: null });
    expect(await terminate()).toMatchObject({ later: { why: expect.stringContaining("still lists") as string } });
  });

  it.each(["terminate", "inspect"])(
    "that fails (%s) notes that the machine may still cost money, and goes on",
    async (what) => {
      await rent.run(provisionStep);
      rent.cloud.before = (call) => {
        if (call.startsWith(what)) throw down();
      };
      await expect(terminate()).rejects.toMatchObject({ code: "provider_error" });
      expect([rent.states(), note()]).toEqual([
        ["1 releasing"],
        {
          kind: "terminate_failed",
          message: expect.stringMatching(/may still cost money.*until it is gone.*does not answer\.$/) as string,
        },
      ]);
      rent.cloud.before = () => {};
      expect(await terminate()).toMatchObject({ done: {} });
    },
  );

  it("is done, with the machine gone, while a part of the provider is silent; listed machines are ended first", async () => {
    await rent.run(provisionStep);
    vi.spyOn(rent.cloud, "listOwned").mockImplementation((prefix) =>
      Promise.reject(
        inPart(
          down(),
          rent.cloud.machines.filter((m) => m.name.startsWith(prefix)),
          "named",
        ),
      ),
    );
    rent.cloud.add(rent.name(7));
    rent.cloud.add(`${nodePrefix(INSTALLATION, "job1", 1)}1`);
    expect(await terminate()).toMatchObject({ later: {} });
    expect(await terminate()).toMatchObject({ done: {} });
    expect(rent.states()).toEqual(["1 released"]);
    expect(rent.cloud.names).toEqual([`${nodePrefix(INSTALLATION, "job1", 1)}1`]);
  });

  it("is not proven by such a listing if the order's answer was lost", async () => {
    rent.cloud.answering = () => {
      throw down();
    };
    await expect(rent.run(provisionStep)).rejects.toMatchObject({ code: "provider_error" });
    vi.spyOn(rent.cloud, "listOwned").mockImplementation(() => Promise.reject(inPart(down(), [], "named")));
    await expect(terminate()).rejects.toMatchObject({ code: "provider_error" });
    expect(rent.states()).toEqual(["1 unknown"]);
  });

  it("waits for the missing pages of a listing, which may show a second machine of the node", async () => {
    await rent.run(provisionStep);
    const list = vi
      .spyOn(rent.cloud, "listOwned")
      .mockImplementation(() => Promise.reject(inPart(down(), [], "anywhere")));
    // The first call ends the known machine.
    await terminate().catch(() => null);
    await expect(terminate()).rejects.toMatchObject({ code: "provider_error" });
    expect(rent.states()).toEqual(["1 released"]);
    list.mockRestore();
    expect(await terminate()).toMatchObject({ done: {} });
  });

  it("is not done while the listing fails", async () => {
    await rent.run(provisionStep);
    rent.cloud.before = (call) => {
      if (call === "list") throw down();
    };
    await expect(terminate()).rejects.toMatchObject({ code: "provider_error" });
  });
});

describe("one machine that resists", () => {
  /** The machine of an order that was abandoned as absent but appeared later, and the next order's machine. */
  const two = async (): Promise<void> => {
    for (const ordinal of [1, 2]) {
      const name = rent.name(ordinal);
      await rent.ledger.intend({ name, jobId: "job1", node: 0, ordinal, provider: "podhost", horizonAt: 0 });
      await rent.ledger.held(name, rent.cloud.add(name));
    }
  };

  it.each([
    ["refuses", () => Promise.reject(down())],
    ["never answers", () => new Promise<void>(() => {})],
  ])("keeps no other machine of the node running: the provider %s", async (_, answer) => {
    await two();
    rent.cloud.before = (call) => (call === "terminate pod-1" ? answer() : undefined);
    const attempt = Promise.resolve(terminate()).catch(() => undefined);
    await expect.poll(() => rent.states()).toEqual(["1 releasing", "2 released"]);
    expect(rent.cloud.names).toEqual([rent.name(1)]);
    rent.cloud.before = () => {};
    void attempt;
    expect(await terminate()).toMatchObject({ done: {} });
  });

  it("does not prevent the termination of another one that was never reported", async () => {
    for (const ordinal of [1, 2]) rent.cloud.add(rent.name(ordinal));
    rent.cloud.before = (call) => {
      if (call === "terminate pod-1") throw down();
    };
    await expect(terminate()).rejects.toMatchObject({ code: "provider_error" });
    expect(rent.cloud.names).toEqual([rent.name(1)]);
  });
});

describe("machines that were never reported", () => {
  it("are found by listing and ended, too", async () => {
    await rent.run(provisionStep);
    rent.cloud.add(rent.name(1), "second");
    rent.cloud.add(rent.name(7), "third");
    expect(await terminate()).toMatchObject({
      later: { why: expect.stringContaining("may still cost money") as string },
    });
    expect(await terminate()).toMatchObject({ done: {} });
    expect(rent.cloud.machines).toEqual([]);
  });

  it("A machine of another node, another job or another installation is left alone", async () => {
    rent.cloud.sloppy = true;
    const others = [
      nodePrefix(INSTALLATION, "job1", 1),
      nodePrefix(INSTALLATION, "job1", 10),
      nodePrefix(INSTALLATION, "job12", 0),
      nodePrefix("foreign1", "job1", 0),
    ];
    for (const prefix of others) rent.cloud.add(`${prefix}1`);
    expect(await terminate()).toMatchObject({ done: {} });
    expect(rent.cloud.names).toEqual(others.map((prefix) => `${prefix}1`));
  });
});

describe("an order whose answer was lost", () => {
  beforeEach(async () => {
    rent.cloud.answering = () => {
      throw down();
    };
    await expect(rent.run(provisionStep)).rejects.toMatchObject({ code: "provider_error" });
    rent.cloud.answering = () => {};
  });

  it("is found and released", async () => {
    expect(await rent.runToEnd(terminateStep)).toEqual([]);
    expect([rent.states(), rent.cloud.machines]).toEqual([["1 released"], []]);
  });

  it("A machine that is listed late is waited for, found and released", async () => {
    rent.cloud.unlisted.add("pod-1");
    expect(await terminate()).toMatchObject({ later: {} });
    rent.cloud.unlisted.clear();
    expect(await terminate()).toMatchObject({ done: {} });
    expect(rent.cloud.machines).toEqual([]);
  });

  it("svc waits until it is certain that an order made no machine", async () => {
    rent.cloud.machines = [];
    const begun = rent.h.clock.now();
    await rent.runToEnd(terminateStep);
    const { horizonMs, listingLagMs, lookGapMs } = rent.cloud.certainty;
    expect(rent.h.clock.now() - begun).toBeGreaterThanOrEqual(horizonMs + listingLagMs + lookGapMs);
    expect(rent.states()).toEqual(["1 released"]);
  });
});
