// Two machines with one name, after a create call whose answer was lost: which of them is kept, whatever the order of the list.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CloudStub, instance } from "./cloudvm-stub.ts";
import { machineRow, NAME, page, PREFIX, Stub } from "./market-stub.ts";
import { data, never, pod, podhostStub } from "./podhost-stub.ts";

describe("market: of two instances with one label", () => {
  let stub: Stub;
  beforeEach(async () => {
    stub = await new Stub().start();
  });
  afterEach(() => stub.close());

  const stopped = machineRow({
    id: 1,
    label: NAME,
    actual_status: null,
    ports: null,
    cur_state: "stopped",
    next_state: "stopped",
    intended_status: "stopped",
  });
  const running = machineRow({ id: 2, label: NAME });
  const loading = machineRow({ id: 3, label: NAME, actual_status: "loading", ports: null });

  test.each([
    ["the one that runs", [stopped, running], "2"],
    ["the one that runs", [running, stopped], "2"],
    ["the one that comes up", [stopped, loading], "3"],
    ["the one that runs", [loading, running], "2"],
    ["the one there is", [stopped], "1"],
  ])("%s comes first", async (_what, rows, id) => {
    stub.routes["GET /api/v1/instances/"] = () => page(rows);
    const provider = stub.provider();
    const [first] = await provider.listOwned(PREFIX, never);
    expect(first?.id).toBe(id);
    // The state of the other machine does not affect this one's.
    if (first && rows.length > 1) expect((await provider.inspect(first, never)).phase).not.toBe("broken");
  });
});

test.each([false, true])(
  "cloudvm: of two machines with one name in two zones the one that runs comes first (reversed: %s)",
  async (reversed) => {
    const stub = await new CloudStub().listen();
    try {
      const zones = [
        ["zones/us-central1-a", { instances: [instance({ id: "1", status: "TERMINATED" })] }],
        ["zones/us-central1-b", { instances: [instance({ id: "2", status: "STAGING" })] }],
        ["zones/us-central1-c", { instances: [instance({ id: "3" })] }],
      ];
      const items = Object.fromEntries(reversed ? zones.toReversed() : zones) as object;
      stub.on("GET", "/aggregated/instances", { json: { items } });
      const owned = await stub.provider().listOwned("svc-abcd1234-", never);
      expect(owned.map(({ id }) => id)).toEqual(["3", "2", "1"]);
    } finally {
      await stub.close();
    }
  },
);

test.each([false, true])(
  "podhost: of two pods with one name the one that runs comes first (reversed: %s)",
  async (reversed) => {
    const pods = [pod({ id: "a", desiredStatus: "EXITED", runtime: null }), pod({ id: "b" })];
    const stub = await podhostStub(() => data({ myself: { pods: reversed ? pods.toReversed() : pods } }));
    expect((await stub.provider.listOwned("svc-", never)).map(({ id }) => id)).toEqual(["b", "a"]);
  },
);
