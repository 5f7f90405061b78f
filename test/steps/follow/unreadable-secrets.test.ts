// A running script whose secrets cannot be read: its log waits on the machine, and its checkpoints are downloaded.

import { expect, test } from "vitest";
import { Redactor } from "../../../src/domain/redaction.ts";
import { SvcError } from "../../../src/errors/index.ts";
import { followToEnd } from "../../../src/steps/follow/follow-to-end.ts";
import type { HeldMachine } from "../../../src/steps/rental/held-machine.ts";
import type { RunServices } from "../../../src/steps/run-services.ts";
import type { StepContext } from "../../../src/steps/step.ts";

const unreadable = new SvcError("home_unusable", { home: "/h", why: "cannot be read" });
const scans: unknown[] = [];
let redactor: () => Redactor;
const services = {
  now: () => 0,
  facts: () => ({ spec: { nodes: 1, idle_timeout_minutes: 0 } }),
  checkpointDir: () => "/checkpoints",
  secrecy: () => ({
    mark: "mark",
    get redactor() {
      return redactor();
    },
  }),
  sink: {
    cursor: () => ({ sourceOffset: 0, displayOffset: 0, samplesOffset: 0 }),
    append: () => Promise.reject(new SvcError("store_failing", { why: "it was not to be stored" } as never)),
  },
  collector: () => ({
    atHome: () => Promise.resolve([]),
    home: { folder: "/home", others: 0 },
    scan: (_host: unknown, { final }: { final: boolean }) => {
      scans.push(final);
      return Promise.reject(new SvcError("disk_full", { path: "/home" }));
    },
  }),
} as unknown as RunServices;
const host = {
  follow: () =>
    Promise.resolve({ look: { phase: "running", log_bytes: null }, slice: { bytes: Buffer.from("a line\n") } }),
  readSamples: () => Promise.resolve({ samples: [], next: 0 }),
};
const held = { access: { inPlace: true, host: () => host }, handle: { name: "m" } } as unknown as HeldMachine;
const context = { jobId: "j", node: 0, signal: new AbortController().signal } as unknown as StepContext;

test("each attempt to follow it scans once as during a run, stores no log, and fails with the reason", async () => {
  redactor = () => {
    throw unreadable;
  };
  await expect(followToEnd(services, context, held, "run")).rejects.toBe(unreadable);
  expect(scans).toEqual([false]);
  await expect(followToEnd(services, context, held, "install")).rejects.toBe(unreadable);
  redactor = () => new Redactor([]);
  await expect(followToEnd(services, context, held, "run")).rejects.toMatchObject({ code: "store_failing" });
  expect(scans).toEqual([false]);
});
