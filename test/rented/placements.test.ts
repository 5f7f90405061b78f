// A job that outlives its machine, from end to end: the real adapters with simulated providers, machines that boot, and a control plane in a
// separate process that may be killed at any boundary.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { describe, expect, it } from "vitest";
import { COUNTING, partsOf, wrongEnd, wrongLog, wrongMachines } from "./placed.ts";
import { FACTOR, World, type Ending, type WorldOptions } from "./world.ts";

async function within<T>(options: WorldOptions, act: (world: World) => Promise<T>): Promise<T> {
  const world = await World.start({ script: COUNTING, lines: 120, seconds: 6, ...options });
  try {
    return await act(world);
  } finally {
    await world.close();
  }
}

/** Checks of every job with placements: no machine remains, never two at once, and every step once after the last resume. */
function wrongOf(world: World, ending: Ending): string[] {
  const [log = "", paths = []] = [ending.logs[0], ending.checkpoints[0]];
  const wrong = [...wrongMachines(world), ...wrongEnd(ending), ...wrongLog(log, { every: 10, last: world.lines })];
  if (!paths.some((path) => path.endsWith(`step_${world.lines}`))) wrong.push("the last checkpoint is not at home");
  return wrong;
}
const begins = (log: string): number[] => partsOf(log).map(({ begin }) => begin);

/** The machine vanishes once a checkpoint was downloaded. */
const vanishesOnce = (world: World): void => world.once("checkpoint.saved", () => world.faults.set("vanishes", 500));

describe.concurrent("a job that outlives its machine", () => {
  it("continues from the last complete checkpoint on another machine, in one log with a seam", async () => {
    await within({ provider: "podhost" }, async (world) => {
      vanishesOnce(world);
      const ending = await world.live();
      expect(wrongOf(world, ending)).toEqual([]);
      const [log = ""] = ending.logs;
      expect(begins(log)).toHaveLength(2);
      expect(begins(log)[1]).toBeGreaterThan(0);
      expect(log).toMatch(/^svc: placement 2 on podhost RTX4090 continues from step_\d+$/m);
      expect(ending.records[0]?.machines).toHaveLength(2);
    });
  });

  it("uses the next candidate if the first has no machine", async () => {
    const spec = { candidates: [{ provider: "podhost", gpus: "RTX4090" }, { provider: "market" }] };
    await within({ provider: "podhost", others: ["market"], spec }, async (world) => {
      world.faults.set("no_capacity");
      const ending = await world.live();
      expect(wrongOf(world, ending)).toEqual([]);
      expect(ending.records[0]).toMatchObject({ provider: "market", status: "succeeded" });
    });
  });

  it("waits without a machine until a candidate has one", async () => {
    await within({ provider: "market", spec: { wait_for_capacity_minutes: 60 } }, async (world) => {
      world.faults.set("no_capacity");
      const over = world.live();
      await world.passed("place.started");
      // 150 s of the provider's time: a run that did not wait would have ended after one minute.
      await new Promise((resolve) => setTimeout(resolve, 150_000 / FACTOR));
      expect(world.ledger.all()).toEqual([]);
      world.faults.clear("no_capacity");
      expect(wrongOf(world, await over)).toEqual([]);
    });
  });

  it.for(["no boundary", "sync.succeeded", "install.succeeded", "launch.started"] as const)(
    "uses another host if the gate finds that one unfit, with a control plane that dies at %s",
    async (kill) => {
      await within({ provider: "market" }, async (world) => {
        world.faults.set("busy_hosts");
        const ending = await world.live(kill === "no boundary" ? null : kill);
        expect(wrongOf(world, ending)).toEqual([]);
        const placements = ending.placements[0] ?? [];
        expect(placements.map(({ failure }) => failure)).toEqual(["machine_unfit", null]);
        expect(placements[0]?.error?.message).toMatch(/only .* of a GPU's memory are free/);
        // The gate tests during the upload: a slow upload ends with its verdict, and after a fast one `launch` waits for it. Nothing of the
        // run was started on the bad host.
        expect(["sync", "launch"]).toContain(placements[0]?.step);
        expect(world.lives).toBe(kill === "no boundary" ? 1 : 2);
        expect(begins(ending.logs[0] ?? "")).toHaveLength(1);
      });
    },
  );

  it.for(["placement.closed", "placement.opened", "machine.released", "collect.started"])(
    "orders no second machine when the control plane is killed at %s",
    async (kill) => {
      await within({ provider: "podhost" }, async (world) => {
        vanishesOnce(world);
        const ending = await world.live(kill as "machine.released");
        expect(wrongOf(world, ending)).toEqual([]);
        expect(world.lives).toBe(2);
        expect(world.ledger.all().filter((line) => !line.foreign)).toHaveLength(2);
      });
    },
  );

  it("ends with each candidate's own reason when none had a machine", async () => {
    const spec = {
      candidates: [
        { provider: "podhost", gpus: "RTX4090" },
        { provider: "market", gpus: "H100" },
      ],
    };
    await within({ provider: "podhost", others: ["market"], spec }, async (world) => {
      world.faults.set("no_capacity");
      world.others.get("market")?.faults.set("no_capacity");
      const { records } = await world.live();
      expect(records[0]).toMatchObject({ status: "failed", error: { code: "no_offer" } });
      expect(records[0]?.error?.message).toMatch(/podhost RTX4090: .*market H100: /);
      expect(world.ledger.all()).toEqual([]);
    });
  });
});
