import { afterAll, afterEach, beforeEach, expect, it } from "vitest";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { Service } from "../../src/engine/service.ts";
import type { ServiceOptions } from "../../src/engine/service-options.ts";
import { Harness, removeHomes } from "./harness.ts";
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
