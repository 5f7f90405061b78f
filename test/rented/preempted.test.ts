// A spot machine whose end its provider announces: the script saves, and what it saved is downloaded before the machine is gone.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { World } from "./world.ts";

/** Saves when it is asked to end, and only then. */
const SCRIPT = `import os, signal, sys, time
def save(*_):
    target = os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "last.bin")
    with open(target + ".tmp", "wb") as f:
        f.write(b"c" * 100000)
    os.rename(target + ".tmp", target)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
i = 0
while True:
    i += 1
    print("line %d" % i, flush=True)
    time.sleep(0.05)
`;

test("A script that is notified of its preemption saves, and its checkpoint is downloaded before the machine is gone", async () => {
  // In real time: the machine polls once per second of its own clock.
  const spec = { spot: "only", retry: { max: 0, on: [] } };
  const world = await World.start({ provider: "cloudvm", spec, factor: 1 });
  try {
    writeFileSync(join(world.dir, "project", "train.py"), SCRIPT);
    world.once("log", () => world.faults.set("preempted", 500));
    const { records, logs, checkpoints } = await world.live();
    expect(records[0]).toMatchObject({ status: "failed", error: { code: "machine_preempted" } });
    // The runner heard of it before the control plane asked the provider.
    expect(records[0]?.error?.message).toContain("it announced the end of the machine");
    expect(checkpoints[0]).toContain("last.bin");
    expect(logs[0]).toContain("saved");
    expect(world.ledger.alive()).toEqual([]);
  } finally {
    await world.close();
  }
});
