// The terms of `cloudvm`'s machines, and the machine types of November 2026.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { planFor } from "../../src/providers/cloudvm/machine-types.ts";
import { CloudStub, handle, instance, MACHINE, never, operation, spec, ZONE } from "./cloudvm-stub.ts";

let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
});
afterEach(() => stub.close());

const INSERT = `/zones/${ZONE}/instances`;
async function sent(settings: Record<string, string>): Promise<Record<string, any>> {
  stub.on("POST", INSERT, operation({ status: "DONE" }));
  const order = { name: MACHINE, jobId: "job000000001", node: 0, spec: spec() };
  await stub.provider(settings).create({ id: `${ZONE}.g2-standard-8`, priceMicro: null, extra: { zone: ZONE } }, order);
  return JSON.parse(stub.asked("POST", /\/instances$/).at(-1)?.body ?? "{}") as Record<string, any>;
}

describe("The machine type for a GPU", () => {
  test.each([
    ["RTX-PRO-6000", "g4-standard-48"],
    ["RTX PRO 6000:2", "g4-standard-96"],
    ["RTX-PRO-6000:4", "g4-standard-192"],
    ["RTX-PRO-6000:8", "g4-standard-384"],
    ["H100-mega:8", "a3-megagpu-8g"],
    ["H100:8", "a3-highgpu-8g"],
  ])("%s is %s", (gpus, machineType) => {
    expect(planFor(spec({ gpus }), {}).machineType).toBe(machineType);
  });

  test("A GB200 comes in fours, on Arm processors that need their own image", () => {
    expect(() => planFor(spec({ gpus: "GB200:4" }), {})).toThrow(/image for Arm/);
    const image = "projects/lab-1/global/images/family/arm-gpu";
    expect(planFor(spec({ gpus: "GB200:4", image }), {})).toMatchObject({
      machineType: "a4x-highgpu-4g",
      accelerator: { type: "nvidia-gb200", count: 4 },
      diskType: "hyperdisk-balanced",
    });
    expect(() => planFor(spec({ gpus: "GB200:8", image }), {})).toThrow(/comes as 4/);
  });

  test("A fraction of a GPU is ordered by its machine type", () => {
    expect(planFor(spec({ gpus: "RTX-PRO-6000" }), { machine_type: "g4-standard-24" })).toMatchObject({
      machineType: "g4-standard-24",
      accelerator: null,
      hasGpu: true,
    });
  });
});

describe("Settings of the credential", () => {
  test("flex-start waits for capacity for a bounded time and uses no reservation", async () => {
    expect(await sent({ provisioning: "flex-start" })).toMatchObject({
      scheduling: { provisioningModel: "FLEX_START", instanceTerminationAction: "DELETE" },
      params: { requestValidForDuration: { seconds: "900" } },
      reservationAffinity: { consumeReservationType: "NO_RESERVATION" },
    });
  });

  test("a reservation is named, alone or as the terms of the machine", async () => {
    const reservationAffinity = { consumeReservationType: "SPECIFIC_RESERVATION", values: ["mine"] };
    expect(await sent({ reservation: "mine" })).toMatchObject({
      scheduling: { provisioningModel: "STANDARD" },
      reservationAffinity,
    });
    expect(await sent({ reservation: "mine", provisioning: "RESERVATION_BOUND" })).toMatchObject({
      scheduling: { provisioningModel: "RESERVATION_BOUND" },
      reservationAffinity,
    });
  });

  test("a machine without an external address is reached at its internal one", async () => {
    const body = await sent({ addresses: "internal" });
    expect(body["networkInterfaces"]).toHaveLength(1);
    expect(body["networkInterfaces"][0]).not.toHaveProperty("accessConfigs");
    const inside = instance({ networkInterfaces: [{ networkIP: "10.128.0.7" }] });
    stub.on("GET", `${INSERT}/${MACHINE}`, { json: inside });
    const made = handle({ addresses: "internal" });
    expect(await stub.provider().inspect(made, never)).toMatchObject({ phase: "ready", address: "10.128.0.7" });
    expect(await stub.provider().inspect(handle(), never)).toMatchObject({ phase: "starting" });
  });

  test.each([
    ["on", false],
    ["secure-boot", true],
  ])("a shielded machine (%s)", async (shielded, enableSecureBoot) => {
    expect((await sent({ shielded }))["shieldedInstanceConfig"]).toEqual({
      enableSecureBoot,
      enableVtpm: true,
      enableIntegrityMonitoring: true,
    });
  });

  test("none of that is requested unless it is set", async () => {
    const body = await sent({});
    for (const name of ["params", "reservationAffinity", "shieldedInstanceConfig"])
      expect(body).not.toHaveProperty(name);
    expect(body["networkInterfaces"][0].accessConfigs).toHaveLength(1);
  });

  test.each([
    [{ provisioning: "cheap" }, /provisioning "cheap" is none/],
    [{ provisioning: "reservation-bound" }, /reservation is not set/],
    [{ reservation: "No Such Name!" }, /reservation is neither/],
    [{ addresses: "both" }, /addresses "both" is none of external, internal/],
    [{ shielded: "maybe" }, /shielded "maybe" is none of/],
  ])("an invalid value is refused before anything is ordered: %o", async (settings, words) => {
    await expect(sent(settings)).rejects.toMatchObject({
      code: "credential_missing",
      message: expect.stringMatching(words) as string,
    });
    expect(stub.asked("POST", /\/instances$/)).toEqual([]);
  });
});
