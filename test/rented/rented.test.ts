// Rented machines from end to end: a control plane in a process of its own, a simulated provider, machines that boot.
// `npm run matrix` runs the whole matrix of faults; these tests run after every change.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { eventually } from "../sim/harness-parts.ts";
import { gathered } from "../gathered.ts";
import { MAIN } from "../program.ts";
import { addForeign, runCell, verdict, type Cell } from "./cell.ts";
import { FACTOR, PROVIDERS, World, type WorldOptions } from "./world.ts";

/** A separate world, which is closed in any case. */
async function within<T>(options: WorldOptions, act: (world: World) => Promise<T>): Promise<T> {
  const world = await World.start(options);
  try {
    return await act(world);
  } finally {
    await world.close();
  }
}

/** How long the provider billed, by its clock. A start or an upload may take twenty minutes. */
const keptMinutes = ({ ledger }: World): number =>
  ledger.all().reduce((sum, { madeAtMs, endedAtMs }) => sum + ((endedAtMs ?? Infinity) - madeAtMs) / 60_000, 0);

async function cell(over: Partial<Cell> & Pick<Cell, "provider">) {
  const outcome = await runCell({ fault: "none", kill: null, seed: 1, ...over });
  expect(outcome.wrong, `${outcome.dir}`).toEqual([]);
  return outcome;
}

describe.concurrent("a rented machine", () => {
  it.for(PROVIDERS)(
    "of %s: ordered, reached, run on and given back; a stranger's stays as it was",
    async (provider) => {
      const { came, lives } = await cell({ provider });
      expect({ came, lives }).toEqual({ came: "succeeded", lives: 1 });
    },
  );

  it.for(["podhost", "market"] as const)("is found and used if its order at %s got no answer", async (provider) => {
    expect(await cell({ provider, fault: "lost_after_create" })).toMatchObject({ came: "succeeded" });
  });

  it.for([
    ["podhost", "sim.made"],
    ["market", "await_ssh.started"],
    ["cloudvm", "log"],
  ] as const)("of %s is taken up again by a control plane that was killed at %s", async ([provider, kill]) => {
    expect(await cell({ provider, kill })).toMatchObject({ came: "succeeded", lives: 2 });
  });

  // At the market, only the disk of a machine that never boots is billed.
  it.for([
    ["podhost", "boot_never"],
    ["podhost-rest", "boot_never"],
    ["market", "hostile_strings"],
  ] as const)(
    "of %s that never can be reached (%s) is released when its price rises above the cap meanwhile",
    async ([provider, fault]) => {
      await within({ provider }, async (world) => {
        world.faults.set(fault);
        world.once("machine.held", () => world.faults.set("price_rises_early", 1_000));
        const ending = await world.live();
        expect(verdict(world, ending, ["price_cap_exceeded"])).toEqual([]);
        expect(keptMinutes(world)).toBeLessThan(10);
      });
    },
  );

  it.for(["podhost", "market"] as const)(
    "of %s is released when its price rises above the cap during a long upload",
    async (provider) => {
      await within({ provider }, async (world) => {
        writeFileSync(join(world.dir, "project", "large.bin"), randomBytes(4_000_000));
        world.faults.set("slow_link");
        world.once("sync.started", () => world.faults.set("price_rises", 1_000));
        const ending = await world.live();
        expect(verdict(world, ending, ["price_cap_exceeded"])).toEqual([]);
        expect(world.events.map(({ name }) => name)).not.toContain("sync.succeeded");
        expect(keptMinutes(world)).toBeLessThan(10);
      });
    },
  );

  it("loses nothing of its log when its disk fills up, and ends", async () => {
    await cell({ provider: "market", fault: "disk_full" });
  });

  it("is given up within minutes when a notebook's owner closes it", async () => {
    expect(await cell({ provider: "notebook", fault: "vanishes" })).toMatchObject({ came: "runtime_gone" });
  });

  it.for([
    ["address", "SVC_PODHOST_URL"],
    ["key", "PODHOST_API_KEY"],
  ] as const)("is kept in mind while its provider's %s is wrong, and given back once it is right", async ([, name]) => {
    await within({ provider: "podhost" }, async (world) => {
      world.begin("log");
      await world.passed("life.ended");
      world.begin(null, { [name]: "nonsense" });
      await world.passed("terminate.retrying");
      expect(world.ledger.alive()).toHaveLength(1);
      await world.kill();
      const ending = await world.live();
      expect(verdict(world, ending, ["succeeded"])).toEqual([]);
    });
  });

  it("keeps printing while this computer's network is cut for 20 s", async () => {
    await within({ provider: "podhost", lines: 1_000, seconds: 12 }, async (world) => {
      world.once("log", () => world.faults.set("black_hole", 20_000 * FACTOR));
      const ending = await world.live();
      expect(verdict(world, ending, ["succeeded"])).toEqual([]);
    });
  });

  it("opens a shell in its project folder", async () => {
    await within({ provider: "podhost", seconds: 12, lines: 100 }, async (world) => {
      const over = world.live();
      await world.passed("log");
      // The child runs without a blocking call, because the machine's network passes through this process.
      const shell = spawn(process.execPath, [MAIN, "ssh", "last"], { env: { ...process.env, SVC_HOME: world.home } });
      const told = gathered(shell);
      shell.stdin.end("pwd; ls\n");
      expect(await told.exited, told.err()).toBe(0);
      expect(told.out()).toMatch(/^\/.*\/\.svc-machine\/svc-[^/]+\/project\n/);
      expect(told.out()).toContain("train.py\n");
      await over;
    });
  });

  it("keeps its whole received log when it vanishes, including text that might have become a metric", async () => {
    await within({ provider: "podhost" }, async (world) => {
      const script = `import time\nprint("line 1\\nlast words\\x1esvc1:", end="", flush=True)\ntime.sleep(600)\n`;
      writeFileSync(join(world.dir, "project", "train.py"), script);
      // The launcher prints its own lines first.
      const logs = join(world.home, "logs");
      const isSeen = (): boolean =>
        existsSync(logs) &&
        readdirSync(logs).some((name) => readFileSync(join(logs, name), "utf8").includes("line 1\n"));
      const seen = eventually(isSeen).then(() => world.faults.set("vanishes", 1_000));
      const ending = await world.live();
      await seen;
      expect(verdict(world, ending, ["machine_lost"])).toEqual([]);
      expect(ending.logs[0]).toMatch(/^line 1\nlast words\x1esvc1:$/m);
    });
  });

  it("keeps the downloaded part of files that keep changing (TensorBoard events, history.csv) when it vanishes", async () => {
    const script = `import os, svc, time
runs = svc.checkpoint_dir() + "/runs"
os.makedirs(runs)
print("begun", flush=True)
with open(runs + "/events.out.tfevents.1.host", "ab", 0) as events, open(runs + "/history.csv", "a") as history:
    for i in range(100000):
        events.write(b"event %d\\n" % i)
        print(i, 1 / (i + 1), sep=",", file=history, flush=True)
        svc.log({"loss": 1 / (i + 1)}, step=i)
        time.sleep(0.05)
`;
    await within({ provider: "podhost", script }, async (world) => {
      const files = ["events.out.tfevents.1.host", "history.csv"];
      const atHome = (name: string): string[] => {
        const [job] = readdirSync(join(world.home, "artifacts")).filter((id) => /^[a-z0-9]{12}$/.test(id));
        const path = join(world.home, "artifacts", job ?? "", "checkpoints", "runs", name);
        return existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
      };
      // The script keeps both open and writes to them: the second hundred lines show that they are followed, not copied once.
      const seen = eventually(
        () => existsSync(join(world.home, "artifacts")) && files.every((f) => atHome(f).length > 200),
      );
      void seen.then(() => world.faults.set("vanishes", 1_000));
      const ending = await world.live();
      await seen;
      expect(verdict(world, ending, ["machine_lost"])).toEqual([]);
      const [events, history] = files.map(atHome);
      expect(events!.slice(0, 200)).toEqual(Array.from({ length: 200 }, (_, i) => `event ${i}`));
      expect(history!.slice(0, 200)).toEqual(
        Array.from({ length: 200 }, (_, i) => expect.stringMatching(`^${i},`) as string),
      );
    });
  });

  it("ends both nodes with one reason when one of two vanishes", async () => {
    const spec = { nodes: 2, launcher: "single" };
    await within({ provider: "podhost", lines: 600, seconds: 12, spec }, async (world) => {
      world.once("log", () => world.faults.set("vanishes", 1_000));
      const ending = await world.live();
      expect(verdict(world, ending, ["machine_lost"])).toEqual([]);
      expect(world.ledger.all().map(({ endedBy }) => endedBy)).toEqual(
        expect.arrayContaining(["vanished", "terminated"]),
      );
      expect(ending.records[0]?.machines.map(({ node }) => node).toSorted()).toEqual([0, 1]);
    });
  });

  it("ends itself when the control plane never comes back", async () => {
    await within({ provider: "podhost", spec: { orphan_grace_minutes: 0.1 } }, async (world) => {
      world.begin("log");
      await world.passed("life.ended");
      expect(world.ledger.alive()).toHaveLength(1);
      // Simulates the end of the first five minutes, in which no contact is required.
      await world.onMachine("cd /var/lib/svc/*/ && read -r up rest </proc/uptime && echo $((${up%%.*} + 5)) >keep");
      await eventually(() => world.ledger.alive().length === 0);
      expect(world.ledger.all().map(({ endedBy }) => endedBy)).toEqual(["self"]);
    });
  });

  it("from another installation is listed as foreign", async () => {
    await within({ provider: "podhost" }, async (world) => {
      addForeign(world);
      await world.live();
      const { foreign, terminated } = await world.reconcile();
      expect(foreign).toEqual([expect.objectContaining({ provider: "podhost", name: "somebody-elses-0" })]);
      expect(terminated).toEqual([]);
      expect(world.ledger.all().filter((line) => line.endedBy !== null && line.foreign)).toEqual([]);
    });
  });
});
