// The digits example on machines that fail one after the other: two candidates have no machine, the third's host has a dead GPU, the
// next machine is preempted in mid-run. The weights must be those of a run that nothing disturbed, byte for byte.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { MAIN } from "../program.ts";
import { wrongEnd, wrongMachines } from "./placed.ts";
import { World } from "./world.ts";

const DIGITS = join(import.meta.dirname, "../../examples/digits");
const ARGS = ["--epochs", "12", "--save-every", "2", "--hidden", "16"];
const WEIGHTS = "weights-012.json";

/** The weights of a run without svc, on this computer. */
function undisturbed(): Buffer {
  const dir = mkdtempSync(join(tmpdir(), "svc-digits-"));
  try {
    cpSync(DIGITS, dir, { recursive: true });
    const { status, stderr } = spawnSync("python3", ["train.py", ...ARGS], { cwd: dir, encoding: "utf8" });
    expect(status, stderr).toBe(0);
    return readFileSync(join(dir, "checkpoints-local", WEIGHTS));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The output of a user's command afterwards; SVC_TEST_TRANSCRIPT names a folder that keeps it. */
function printed({ home }: World, name: string, args: string[]): string {
  const env = { ...process.env, SVC_HOME: home, NO_COLOR: "1", COLUMNS: "140" };
  const { stdout, stderr, status } = spawnSync(process.execPath, [MAIN, ...args], { env, encoding: "utf8" });
  expect(status, stderr).toBe(0);
  const to = process.env["SVC_TEST_TRANSCRIPT"];
  if (to !== undefined) {
    mkdirSync(to, { recursive: true });
    writeFileSync(join(to, name), stdout);
  }
  return stdout;
}

it("A run that is refused twice, gets a dead GPU and is preempted has the weights of an undisturbed run", async (ctx) => {
  const candidates = [
    { provider: "podhost", gpus: "RTX4090", price_cap: 2 },
    { provider: "market", gpus: "RTX4090", price_cap: 2, spot: "only" },
    { provider: "cloudvm", gpus: "L4" },
  ];
  const spec = { candidates, wait_for_capacity_minutes: 60, args: ARGS, price_cap: undefined };
  const world = await World.start({ provider: "podhost", others: ["market", "cloudvm"], project: DIGITS, spec });
  try {
    if (world.fleet.kind === "plain") ctx.skip("machines share this computer's GPU tools here");
    world.faultsOf("podhost").set("no_capacity");
    world.faultsOf("market").set("no_capacity");
    world.faultsOf("cloudvm").set("bad_hosts");
    // Exactly one provider has a machine at any time, so that the order does not depend on how fast each one answers.
    world.once("machine.held", () => {
      world.faultsOf("cloudvm").set("no_capacity");
      world.faultsOf("market").clear("no_capacity");
    });
    world.once("checkpoint.saved", () => {
      world.faultsOf("market").set("no_capacity");
      world.faultsOf("podhost").clear("no_capacity");
      world.faultsOf("market").set("preempted", 500);
    });
    const ending = await world.live();
    const [record] = ending.records;
    expect([...wrongEnd(ending), ...wrongMachines(world)]).toEqual([]);
    const placements = ending.placements[0] ?? [];
    // An order that the provider refused is a placement, too.
    const hadMachine = placements.filter(({ failure }) => failure !== "no_machine");
    expect(hadMachine.map(({ provider, failure }) => [provider, failure])).toEqual([
      ["cloudvm", "machine_unfit"],
      ["market", "preempted"],
      ["podhost", null],
    ]);
    expect(hadMachine[2]?.resumed_from?.checkpoint).toMatch(/^weights-0\d\d\.json$/);
    // The candidates that it did not get are in the timeline, each with its provider's reason.
    const id = record?.id ?? "";
    printed(world, "job.json", ["jobs", id, "--json"]);
    expect(printed(world, "timeline.txt", ["timeline", id])).toMatch(
      /provider=cloudvm gpus=L4 passed_over=podhost RTX4090: .+; market RTX4090: .+/,
    );
    const log = printed(world, "log.txt", ["logs", id]);
    expect(log).toMatch(/^svc: placement \d on podhost RTX4090 continues from weights-0\d\d\.json$/m);
    expect(log).toMatch(/^continuing after epoch \d+ from /m);
    const cost = placements.reduce((sum, { cost_usd }) => sum + cost_usd, 0);
    expect(record?.cost_usd).toBeCloseTo(cost, 4);
    const home = join(world.home, "artifacts", id, "checkpoints", WEIGHTS);
    expect(readFileSync(home).equals(undisturbed())).toBe(true);
  } finally {
    await world.close();
  }
});
