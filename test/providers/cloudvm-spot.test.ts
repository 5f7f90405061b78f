// Spot machines of `cloudvm`: which orders request one, and how svc detects that the provider took one back.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  CloudStub,
  handle,
  instance,
  MACHINE,
  never,
  notFound,
  operation,
  PROJECT,
  spec,
  ZONE,
} from "./cloudvm-stub.ts";

let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
});
afterEach(() => stub.close());

const INSERT = `/zones/${ZONE}/instances`;
type Spot = "never" | "prefer" | "only" | undefined;

describe("An order", () => {
  /** The terms of each order that a run makes, when one offer after another is tried. */
  async function termsOf(spot: Spot, settings: Record<string, string> = {}): Promise<string[]> {
    stub.on("GET", "", { json: { name: PROJECT } });
    stub.on("POST", "/zones/*/instances", operation());
    const provider = stub.provider(settings);
    const offers = await provider.listOffers(spec({ spot }), never);
    const terms: string[] = [];
    for (const offer of offers.filter(({ extra }) => extra?.["zone"] === ZONE)) {
      const made = await provider.create(offer, { name: MACHINE, jobId: "j", node: 0, spec: spec({ spot }) });
      const { scheduling } = JSON.parse(stub.asked("POST", /instances$/).at(-1)?.body ?? "{}") as {
        scheduling: Record<string, unknown>;
      };
      expect(scheduling).toMatchObject({ automaticRestart: false, instanceTerminationAction: "DELETE" });
      const isSpot = scheduling["provisioningModel"] === "SPOT";
      expect(made.extra?.["spot"]).toBe(isSpot ? "yes" : undefined);
      // Terms that the run did not request are the owner's own choice, and do not make a spot offer.
      expect(offer.spot === true).toBe(isSpot && spot !== undefined);
      terms.push(String(scheduling["provisioningModel"]));
    }
    return terms;
  }

  test.each<[Spot, Record<string, string>, string[]]>([
    [undefined, {}, ["STANDARD"]],
    [undefined, { provisioning: "spot" }, ["SPOT"]],
    ["never", { provisioning: "spot" }, ["STANDARD"]],
    ["never", { provisioning: "flex-start" }, ["FLEX_START"]],
    ["only", {}, ["SPOT"]],
    ["only", { provisioning: "flex-start" }, ["SPOT"]],
    ["prefer", {}, ["SPOT", "STANDARD"]],
    ["prefer", { provisioning: "spot" }, ["SPOT", "STANDARD"]],
    ["prefer", { provisioning: "flex-start" }, ["SPOT", "FLEX_START"]],
  ])("with spot %s and the setting %j asks for %j", async (spot, settings, terms) => {
    expect(await termsOf(spot, settings)).toEqual(terms);
  });

  test("for a spot machine does not use a reservation", async () => {
    await termsOf("only", { reservation: "mine" });
    expect(stub.asked("POST", /instances$/).at(-1)?.body).not.toContain("reservationAffinity");
  });

  test("tries the spot machines of every zone before one on demand", async () => {
    const offers = await stub.provider().listOffers(spec({ spot: "prefer" }), never);
    const kinds = offers.map((offer) => offer.spot === true);
    expect(kinds.length).toBeGreaterThan(2);
    expect(kinds).toEqual(kinds.toSorted((a, b) => Number(b) - Number(a)));
    expect(new Set(offers.map(({ id }) => id)).size).toBe(offers.length);
  });
});

describe("The announcement of a preemption", () => {
  const noticeOf = (extra: Record<string, string>, settings: Record<string, string> = {}) =>
    stub.provider(settings).preemptionNotice(handle(extra));

  test("is read by a spot machine at the cloud's metadata server", () => {
    expect(noticeOf({ spot: "yes" })).toEqual({
      url: "http://169.254.169.254/computeMetadata/v1/instance/preempted",
      headers: { "Metadata-Flavor": "Google" },
      says: "TRUE",
      seconds: 30,
    });
    expect(noticeOf({ spot: "yes" }, { metadata_url: "http://127.0.0.1:9/{name}/" })?.url).toBe(
      `http://127.0.0.1:9/${MACHINE}/computeMetadata/v1/instance/preempted`,
    );
  });

  test("reaches no machine on demand", () => {
    expect(noticeOf({})).toBeNull();
  });

  test("is read by a machine whose order was lost and that was found in a listing", async () => {
    const found = instance({ scheduling: { provisioningModel: "SPOT" } });
    const items = { [`zones/${ZONE}`]: { instances: [found, instance({ name: `${MACHINE}1` })] } };
    stub.on("GET", "/aggregated/instances", { json: { kind: "compute#instanceAggregatedList", items } });
    const listed = await stub.provider().listOwned("svc-abcd1234-", never);
    expect(listed.map((one) => one.extra?.["spot"])).toEqual(["yes", undefined]);
  });
});

describe("A machine that the provider takes back", () => {
  const endedBy = (operationType: string, status = "DONE") =>
    stub.on("GET", `/zones/${ZONE}/operations`, {
      json: { kind: "compute#operationList", items: [operation({ operationType, status, user: "system" }).json] },
    });
  const look = () => stub.provider().inspect(handle({ spot: "yes", made_at_ms: String(stub.nowMs) }), never);

  test.each(["STOPPING", "TERMINATED"])("is preempted while it is %s", async (status) => {
    stub.on("GET", `${INSERT}/${MACHINE}`, { json: instance({ status }) });
    endedBy("compute.instances.preempted", "RUNNING");
    expect(await look()).toMatchObject({ phase: "broken", preempted: true });
  });

  test("is preempted and gone once it is not found", async () => {
    stub.on("GET", `${INSERT}/${MACHINE}`, notFound());
    endedBy("compute.instances.preempted");
    expect(await look()).toMatchObject({ phase: "gone", preempted: true });
  });

  test.each(["delete", "compute.instances.deferredDelete", "compute.instances.hostError"])(
    "was not taken back if the machine ended by %s",
    async (operationType) => {
      stub.on("GET", `${INSERT}/${MACHINE}`, { json: instance({ status: "STOPPING" }) });
      endedBy(operationType);
      const status = await look();
      expect(status.phase).toBe("broken");
      expect(status).not.toHaveProperty("preempted");
    },
  );
});
