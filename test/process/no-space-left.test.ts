// A home on a disk without one free byte, whose reserve is spent, and a rented machine that costs money: svc starts, and ends the machine.
// @module-tag needs/mounts
// @module-tag needs/sshd

import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, rmdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { makeLedger } from "../sim/providers/ledger.ts";
import { gpusOnOffer } from "../sim/providers/start.ts";
import { Place, until } from "./harness.ts";
import { idleMachines, svcBeside } from "./idle-machines.ts";

let place: Place;
let ledger: ReturnType<typeof makeLedger>;
let machines: Awaited<ReturnType<typeof idleMachines>>;
beforeEach(async () => {
  place = Place.own("each has a full disk");
  mkdirSync(place.home, { mode: 0o700 });
  expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", place.home]).status).toBe(0);
  ledger = makeLedger();
  machines = await idleMachines(place, ledger);
  place.file("train.py", "print('never runs')\n");
});
afterEach(async () => {
  const { home } = place;
  place.killAll();
  await place.end();
  await until(() => spawnSync("umount", [home]).status === 0, "the file system can be unmounted");
  await place.close();
  await machines.close();
});

const ballast = (): string => join(place.home, "ballast");
/** Takes every byte, as another program would, after svc has spent its reserve. */
function fillUp(): void {
  rmSync(join(place.home, "reserve"), { force: true });
  writeFileSync(ballast(), "");
  for (const size of [1 << 20, 1 << 12])
    for (;;) {
      try {
        appendFileSync(ballast(), Buffer.alloc(size, 1));
      } catch (e) {
        if ((e as NodeJS.ErrnoException).code !== "ENOSPC") throw e;
        break;
      }
    }
  expect(statfsSync(place.home).bavail).toBe(0);
}

/** A run whose machine is rented, and no control plane; the disk is full. */
async function stranded(signal: NodeJS.Signals = "SIGKILL"): Promise<string> {
  const served = await place.serve();
  const spec = { provider: "podhost", gpus: gpusOnOffer("podhost"), entrypoint: "train.py", install: "none" };
  const id = await served.submit({ ...spec, price_cap: 20, terminate_on_exit: false });
  await until(async () => (await served.job(id)).status === "awaiting_ssh", "the machine is rented");
  expect(ledger.alive()).toHaveLength(1);
  served.signal(signal);
  await served.exited;
  fillUp();
  return id;
}

it("`svc kill` ends a rented machine", async () => {
  const id = await stranded();
  const killed = await svcBeside(place, "kill", id);
  expect([killed.code, killed.out], killed.err).toEqual([0, `${id}\tcancelled\n`]);
  expect(ledger.alive()).toEqual([]);
});

it("`svc reconcile` starts, and names the rented machine", async () => {
  await stranded();
  const { code, out, err } = await svcBeside(place, "reconcile", "--dry-run");
  expect(code, err).toBe(0);
  expect(out).toContain("would be resumed");
});

it("`svc serve` starts, is found by the commands, and continues when there is room again", async () => {
  const id = await stranded();
  const served = await place.serve();
  expect((await served.job(id)).status).toBe("awaiting_ssh");
  const { status, body } = await served.post("/jobs", { spec: { entrypoint: "train.py" } });
  expect([status, body["code"]]).toEqual([507, "disk_full"]);
  const killed = await svcBeside(place, "kill", id);
  expect([killed.code, killed.out], killed.err).toEqual([0, `${id}\tcancelled\n`]);
  expect(ledger.alive()).toEqual([]);
  rmSync(ballast());
  const next = await served.submit({ entrypoint: "train.py", project_dir: place.project });
  expect((await served.ended(next)).status).toBe("succeeded");
});

it("`svc serve` outlives another failure to write where it is found, and is found once that passes", async () => {
  const id = await stranded();
  const file = join(place.home, "control-plane.json");
  rmSync(file);
  fillUp();
  const served = await place.serve();
  expect(existsSync(file)).toBe(false);
  mkdirSync(file);
  rmSync(ballast());
  await until(() => served.err.includes("control-plane.json"), "the failure is reported");
  expect((await served.job(id)).status).toBe("awaiting_ssh");
  rmdirSync(file);
  await until(() => existsSync(file), "it is written");
  expect((await svcBeside(place, "kill", id)).code).toBe(0);
  expect(ledger.alive()).toEqual([]);
});

it("a control plane that ended properly has given its room away: `svc kill` says that it cannot end the machine, and does so with room", async () => {
  const id = await stranded("SIGTERM");
  const refused = await svcBeside(place, "kill", id);
  expect(refused.code, refused.err).toBe(1);
  expect(refused.err).toContain("rented machines continue, and cost money: svc cannot end them now");
  expect(refused.err).toContain("Free some space, then run the command again.");
  expect(ledger.alive()).toHaveLength(1);
  rmSync(ballast());
  expect((await svcBeside(place, "kill", id)).code).toBe(0);
  expect(ledger.alive()).toEqual([]);
});
