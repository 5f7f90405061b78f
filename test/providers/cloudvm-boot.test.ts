// A machine that cannot boot: the message on its serial console ends the wait, and no other text there does.

import { afterEach, beforeEach, expect, test } from "vitest";
import { apiError, CloudStub, handle, instance, MACHINE, never, ZONE, type Answer } from "./cloudvm-stub.ts";

const SELF = `/zones/${ZONE}/instances/${MACHINE}`;
const CONSOLE = `${SELF}/serialPort`;
let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
  stub.on("GET", SELF, { json: instance() });
});
afterEach(() => stub.close());

/** Polls every 5 s of the provider's time, for so many seconds or until the phase is no longer `ready`. */
async function lookFor(seconds: number): Promise<{ after: number; phase: string; why: string }> {
  const provider = stub.provider({});
  for (let after = 0; ; after += 5) {
    const status = await provider.inspect(handle(), never);
    const why = "why" in status ? (status.why ?? "") : "";
    if (status.phase !== "ready" || after >= seconds) return { after, phase: status.phase, why };
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
