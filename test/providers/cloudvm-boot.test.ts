// A machine that cannot boot: the message on its serial console ends the wait, and no other text there does.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { apiError, CloudStub, handle, instance, MACHINE, never, operation, ZONE, type Answer } from "./cloudvm-stub.ts";

const SELF = `/zones/${ZONE}/instances/${MACHINE}`;
const CONSOLE = `${SELF}/serialPort`;
let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
  stub.on("GET", SELF, { json: instance() });
});
afterEach(() => stub.close());

/** Polls every 5 s of the provider's time, for so many seconds or until the phase is no longer `ready`. */
async function lookFor(
  seconds: number,
  machine = handle(),
): Promise<{ after: number; phase: string; why: string; elsewhere: boolean }> {
  const provider = stub.provider({});
  for (let after = 0; ; after += 5) {
    const status = await provider.inspect(machine, never);
    const why = "why" in status ? (status.why ?? "") : "";
    if (status.phase !== "ready" || after >= seconds)
      return { after, phase: status.phase, why, elsewhere: status.phase === "broken" && status.elsewhere === true };
    stub.nowMs += 5_000;
  }
}
const output = (contents: string): Answer => ({
  json: { kind: "compute#serialPortOutput", contents, start: "0", next: "7" },
});
const looks = (): number => stub.asked("GET", /serialPort$/).length;

test.each([
  "[ 2.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
  "Boot failed: not a bootable disk",
  "No bootable device",
  "You are in emergency mode. After logging in, type journalctl -xb",
])("%s ends the wait within a minute, in these words", async (line) => {
  stub.on("GET", CONSOLE, output(`SeaBIOS (version 1.8)\r\n${line}\r\n`));
  const { after, phase, why } = await lookFor(300);
  expect([phase, why]).toEqual(["broken", `it cannot boot: ${line}`]);
  expect(after).toBeLessThanOrEqual(60);
});

describe("a machine that broke before the first login", () => {
  const reached = { ...handle(), extra: { ...handle().extra, home: "/root" } };
  const ended = (...operations: Answer[]) => {
    stub.on("GET", SELF, { json: instance({ status: "TERMINATED" }) });
    stub.on("GET", `/zones/${ZONE}/operations`, { json: { items: operations.map((one) => one.json) } });
  };
  const by = (operationType: string, user = "system") => operation({ operationType, user });

  test.each([
    ["it powered itself off", [by("compute.instances.guestTerminate")]],
    ["the hardware failed", [by("compute.instances.hostError")]],
    ["nothing is known", []],
  ])("is replaced by another one where %s", async (_why, operations) => {
    ended(...operations);
    expect((await lookFor(0)).elsewhere).toBe(true);
    // Later, its failure is not one of its boot.
    expect((await lookFor(0, reached)).elsewhere).toBe(false);
  });

  test.each([
    ["a person stopped it", by("stop", "ann@example.com")],
    ["it reached its time limit", by("compute.instances.deferredStop")],
    ["it was preempted", by("compute.instances.preempted")],
  ])("is not replaced as a bad one where %s", async (_why, one) => {
    ended(one);
    expect((await lookFor(0)).elsewhere).toBe(false);
  });

  test.each([
    ["Kernel panic - not syncing: Fatal machine check on current CPU", true],
    ["Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)", false],
    ["No bootable device", false],
  ])("is replaced unless its image is at fault: %s", async (line, elsewhere) => {
    stub.on("GET", CONSOLE, output(line));
    expect(await lookFor(300)).toMatchObject({ phase: "broken", elsewhere });
    expect(await lookFor(300, reached)).toMatchObject({ phase: "broken", elsewhere: false });
  });
});

test("Output of a start script or a driver's installer ends nothing, and the console is read a bounded number of times", async () => {
  stub.on("GET", CONSOLE, output("startup-script exit status 1\nERROR: nvidia installer: trying again\n"));
  expect(await lookFor(1_200)).toMatchObject({ phase: "ready" });
  expect(looks()).toBeLessThanOrEqual(20);
});

test.each<[string, Answer]>([
  ["a key that may not read it", apiError(403, "forbidden", "Required 'compute.instances.getSerialPortOutput'")],
  ["an outage", { status: 503, text: "<html>" }],
  ["an answer without a text", { json: {} }],
  ["a cut connection", { cut: true }],
])("An unavailable console (%s) decides nothing", async (_what, answer) => {
  stub.on("GET", CONSOLE, answer);
  expect(await lookFor(300)).toMatchObject({ phase: "ready" });
  expect(looks()).toBeLessThanOrEqual(5);
});
