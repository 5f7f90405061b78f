// svc compares the delivered machine with the order before any code runs.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { SvcError } from "../../../src/errors/index.ts";
import type { MachineAccess, MachineFacts } from "../../../src/providers/host.ts";
import { awaitSshStep } from "../../../src/steps/await-ssh.ts";
import { provisionStep } from "../../../src/steps/provision.ts";
import type { RunServices } from "../../../src/steps/run-services.ts";
import type { StepDefinition } from "../../../src/steps/step.ts";
import { removeHomes } from "../../engine/harness.ts";
import { agentPath } from "../../ssh/machine.ts";
import { Rent } from "../rent.ts";

const FACTS: MachineFacts = {
  home: "/root",
  user: "root",
  python: "/usr/bin/python3",
  python_version: "3.11.2",
  cpus: 8,
  memory_bytes: 1,
  disk_free_bytes: 1,
  gpus: [{ name: "NVIDIA GeForce RTX 4090", memory_mib: 24_564 }],
  gpu_driver: "570.86.15",
  gpu_fault: null,
  rsync: true,
  boot_id: "b",
};
const LOST = { tool: "nvidia-smi", exit: 15, words: "Unable to determine the device handle for GPU 0: GPU is lost." };

let rent: Rent;
let facts: MachineFacts;
let notices: string[];
let greeted: number;
let step: StepDefinition;
beforeEach(async () => {
  rent = await Rent.open();
  rent.want({ gpus: "RTX4090" });
  [facts, notices, greeted] = [FACTS, [], 0];
  const greet = (): Promise<MachineFacts> => {
    greeted += 1;
    return Promise.resolve(facts);
  };
  rent.cloud.access = () => ({ inPlace: false, greet }) as unknown as MachineAccess;
  const sink = { notice: (_job: string, _level: string, words: string) => Promise.resolve(void notices.push(words)) };
  step = awaitSshStep({ ...rent.ports, guard: () => null, sink } as unknown as RunServices);
  await rent.h.create("job1");
  await rent.run(provisionStep);
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

const look = () => rent.run(() => step);

test("An ordered machine passes at its first greeting, without a further call", async () => {
  expect(await look()).toMatchObject({ done: {}, detail: { gpu_driver: "570.86.15" } });
  expect([greeted, notices]).toEqual([1, []]);
});

test("An RTX 3060 in place of an RTX 4090 ends the run at once, and the message names both and the money", async () => {
  facts = { ...FACTS, gpus: [{ name: "NVIDIA GeForce RTX 3060", memory_mib: 12_288 }] };
  await rent.h.clock.advance(60_000);
  await expect(look()).rejects.toMatchObject({
    code: "machine_unfit",
    message: expect.stringMatching(/1 × RTX4090 was ordered.*RTX 3060 \(12 GB\); it has cost about \$\S+ so far/),
  });
  expect(greeted).toBe(1);
});

test("A machine is not given up because this computer lacks the key for the login", async () => {
  const no = new SvcError("ssh_key_unusable", { path: "/home/me/id", why: "no SSH agent runs" });
  const access = { inPlace: false, greet: () => Promise.reject(no) };
  rent.cloud.access = () => access as unknown as MachineAccess;
  expect(await look()).toMatchObject({ later: { why: no.message } });
});

test("A driver tool that fails in two polls means a broken machine", async () => {
  facts = { ...FACTS, gpus: null, gpu_fault: LOST };
  expect(await look()).toMatchObject({ later: { why: expect.stringContaining("GPU is lost") } });
  await expect(look()).rejects.toMatchObject({
    code: "machine_unfit",
    message: expect.stringMatching(/nvidia-smi exits 15 and says: .*GPU is lost/),
  });
});

test("A driver tool that fails once and then works does not end the run", async () => {
  facts = { ...FACTS, gpus: null, gpu_fault: LOST };
  expect(await look()).toHaveProperty("later");
  facts = FACTS;
  expect(await look()).toHaveProperty("done");
});

test("svc waits for a virtual machine that installs its driver after the first boot", async () => {
  rent.want({ gpus: "L4", provider: "cloudvm" });
  facts = {
    ...FACTS,
    gpus: null,
    driver_pending: true,
    gpu_fault: { tool: "nvidia-smi", exit: 9, words: "no driver" },
  };
  for (let minute = 0; minute < 9; minute++) {
    expect(await look()).toHaveProperty("later");
    await rent.h.clock.advance(60_000);
  }
  facts = { ...FACTS, gpus: [{ name: "NVIDIA L4", memory_mib: 23_034 }] };
  expect(await look()).toHaveProperty("done");
});

test("A machine that svc does not own gets a warning, because nothing was ordered there", async () => {
  Object.assign(rent.cloud.info.capabilities, { owns_machine: false });
  facts = { ...FACTS, gpus: [{ name: "Tesla T4", memory_mib: 15_360 }] };
  expect(await look()).toHaveProperty("done");
  expect(notices).toEqual([expect.stringContaining("Tesla T4")]);
});

describe("The agent runs the tool of the driver", () => {
  let folder: string;
  beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "svc-smi-"))));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  function ask(tool: "nvidia-smi" | "rocm-smi", script: string): unknown {
    const path = join(folder, tool);
    writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const code = `import sys, json; sys.path.insert(0, ${JSON.stringify(join(agentPath, ".."))})
import svc_agent
print(json.dumps(svc_agent.gpus(${JSON.stringify(`${folder}:/bin`)})))`;
    try {
      return JSON.parse(execFileSync("python3", ["-B", "-c", code], { encoding: "utf8" }));
    } finally {
      rmSync(path);
    }
  }

  test("takes names, memory and the driver's version from one call", () => {
    expect(ask("nvidia-smi", `echo "NVIDIA A100-SXM4-80GB, 81920, 570.86.15"; echo "Odd, [N/A], 570.86.15"`)).toEqual([
      [
        { name: "NVIDIA A100-SXM4-80GB", memory_mib: 81_920 },
        { name: "Odd", memory_mib: null },
      ],
      "570.86.15",
      null,
    ]);
  });

  test.each([
    [6, "No devices were found"],
    [15, "Unable to determine the device handle for GPU0000:01:00.0: GPU is lost."],
    [18, "Failed to initialize NVML: Driver/library version mismatch"],
  ])("reports a failure with exit code %i in the tool's own words", (exit, words) => {
    expect(ask("nvidia-smi", `echo "${words}"; exit ${exit}`)).toEqual([
      null,
      null,
      { tool: "nvidia-smi", exit, words },
    ]);
  });

  test.each([
    "[GPU is lost], [GPU is lost], 570.1",
    "Unable to determine the device handle for GPU0000:41:00.0: Not Found",
  ])("treats one lost GPU among others as a failure: %s", (row) => {
    const told = ask("nvidia-smi", `echo "NVIDIA L4, 23034, 570.1"; echo "${row}"`);
    expect(told).toEqual([null, null, { tool: "nvidia-smi", exit: 0, words: row }]);
  });

  test.each<["nvidia-smi" | "rocm-smi", string, string]>([
    ["nvidia-smi", "echo No devices were found", "No devices were found"],
    ["nvidia-smi", "true", "it shows no GPU"],
    ["rocm-smi", "echo 'ERROR: no AMD GPUs'", "ERROR: no AMD GPUs"],
    ["rocm-smi", "echo '{}'", "{}"],
    ["rocm-smi", "echo '{torn'", "{torn"],
  ])("reports a %s that succeeds (%s) and shows no GPU", (tool, script, words) => {
    expect(ask(tool, script)).toEqual([null, null, { tool, exit: 0, words }]);
  });

  test("reads the GPUs of AMD", () => {
    const json = JSON.stringify({
      card0: { "VRAM Total Memory (B)": "206141652992", "Card Series": "AMD Instinct MI300X OAM" },
      system: { "Driver version": "6.10.5" },
    });
    expect(ask("rocm-smi", `echo 'WARNING: low power'; echo '${json}'`)).toEqual([
      [{ name: "AMD Instinct MI300X OAM", memory_mib: 196_592 }],
      "6.10.5",
      null,
    ]);
  });
});
