import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { untilOver } from "../../src/engine/graceful-shutdown.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { Service } from "../../src/engine/service.ts";
import type { ServiceOptions } from "../../src/engine/service-options.ts";
import { Harness, removeHomes, turn } from "./harness.ts";
import { NO_SINKS } from "./no-sinks.ts";

let h: Harness;
let reported: string[];
beforeEach(async () => {
  h = await Harness.open();
  reported = [];
});
afterEach(() => h.end());
afterAll(removeHomes);

const report = (message: string): void => void reported.push(message);
function fail(): never {
  throw new RangeError("disk I/O error");
}

it("An order that cannot be read when its machine is released keeps no event from the others", () => {
  const options: Partial<ServiceOptions> = { engine: h.engine, reads: h.reads, report, sinks: NO_SINKS };
  const ledger = Object.assign(new DurableLedger(h.engine), { row: fail });
  const service = new Service({ ...options, ledger, providers: new Map() } as ServiceOptions);
  const heard: string[] = [];
  service.subscribe(({ type }) => heard.push(type));
  const event = { seq: 1, job_id: null, at: "now", data: { state: "released", name: "m" } };
  service.publish([{ ...event, type: "machine.changed" }]);
  expect(heard).toEqual(["machine.changed"]);
  expect(reported).toEqual([expect.stringContaining("disk I/O error")]);
});

describe("The end of the control plane while the store cannot be read", () => {
  let listener: () => void;
  const ending = () =>
    untilOver(
      {
        engine: h.engine,
        ledger: new DurableLedger(h.engine),
        providers: new Map(),
        report,
        onTransition: (heard) => {
          listener = heard;
          return () => undefined;
        },
      },
      ["job1"],
      { deadlineMs: 10_000, collectingMs: 20_000 },
    );

  it("looks again, and waits for the release", async () => {
    await h.create();
    const job = h.store.job.bind(h.store);
    const over = ending();
    h.store.job = fail;
    await h.clock.advance(3_000);
    expect(reported).toEqual([expect.stringContaining("again")]);
    h.store.job = job;
    await h.kill();
    await h.attempt("terminate").done();
    listener();
    expect(await over).toEqual([]);
  });

  it("ends at the latest limit, and names every job", async () => {
    await h.create();
    const job = h.store.job.bind(h.store);
    h.store.job = fail;
    let isOver = false;
    const over = ending().finally(() => (isOver = true));
    await h.clock.advance(19_000);
    expect(isOver).toBe(false);
    await h.clock.advance(1_000);
    await turn();
    expect(await over).toEqual(["job1"]);
    h.store.job = job;
  });
});
