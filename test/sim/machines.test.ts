// @module-tag needs/sshd

import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually, login, ssh, testParts, type TestParts, type Way } from "./harness-parts.ts";
import { makeFleet } from "./machines/fleet.ts";
import { tool } from "./machines/host-tools.ts";
import { unmetNeeds } from "../needs.ts";
import { SIM_NAMES, startSim } from "./providers/start.ts";
import type { BootRequest, SimMachine } from "./providers/parts.ts";

const ROUNDS = 120;
const able = unmetNeeds(["needs/namespaces"]) === null;
let parts: TestParts;
beforeEach(async () => {
  parts = await testParts();
});
afterEach(() => parts.close());

const request = (name: string, more: Partial<BootRequest> = {}): BootRequest => ({
  name,
  authorizedKeys: [parts.publicKey],
  user: "root",
  env: {},
  startScript: null,
  bootMs: 0,
  gpus: 0,
  gpuName: "NVIDIA L4",
  diskMb: 64,
  apiPort: null,
  ...more,
});
const boot = (name: string, more: Partial<BootRequest> = {}) => parts.fleet.boot(request(name, more));
const way = ({ address, port }: SimMachine, user = "root"): Way => ({
  host: address,
  port,
  user,
  keyPath: parts.keyPath,
});
/** The output of a command, once a login works. */
const said = async (machine: SimMachine, command: string, user = "root"): Promise<string> => {
  const { code, out, err } = await login(way(machine, user), command);
  if (code !== 0) throw new Error(`${command}: ${code}: ${err}`);
  return out.trim();
};
const links = async (): Promise<string[]> =>
  (await tool("ip", ["-o", "link"])).split("\n").filter((line) => line.includes(`svcsim-owner-${process.pid}`));
/** Whether a login works within the time limit. */
const answers = async (machine: SimMachine): Promise<boolean> => (await ssh(way(machine), "true")).code === 0;

describe("machines out of namespaces", { tags: "needs/namespaces" }, () => {
  test("have their own disk, processes, host key and GPUs; only the first process sees the environment", async () => {
    const machines = await Promise.all(
      [1, 2, 3].map((n) =>
        boot(`m-${n}`, {
          gpus: n,
          env: { TOKEN: `of ${n}` },
          startScript: `echo "$TOKEN" >/workspace/started; sleep 1000`,
        }),
      ),
    );
    expect(new Set(machines.map(({ hostKey }) => hostKey)).size).toBe(3);
    for (const [i, machine] of machines.entries()) {
      const n = i + 1;
      expect(await said(machine, "hostname; cat /workspace/started")).toBe(`m-${n}\nof ${n}`);
      expect(await said(machine, "tr '\\0' '\\n' </proc/1/environ | grep TOKEN; env | grep -c TOKEN || true")).toBe(
        `TOKEN=of ${n}\n0`,
      );
      expect(await said(machine, "nvidia-smi --query-gpu=index,name --format=csv,noheader | wc -l")).toBe(String(n));
      const scanned = await tool("ssh-keyscan", ["-t", "ed25519", "-p", String(machine.port), machine.address]);
      expect(scanned).toContain(machine.hostKey);
    }
    const [first] = machines;
    expect(
      await said(
        first!,
        "rsync --version >/dev/null && python3 -c 'print(6*7)'; touch /usr/x 2>/dev/null || echo read-only",
      ),
    ).toBe("42\nread-only");
  });

  test("reach the simulator's API under its own address, and each other, and nothing else", async () => {
    const api = createServer((_, response) => response.end("the api"));
    await new Promise<void>((resolve) => void api.listen(0, "127.0.0.1", resolve));
    const { port } = api.address() as AddressInfo;
    const [a, b] = await Promise.all([boot("a-1", { apiPort: port }), boot("a-2", { apiPort: port })]);
    expect(await said(a, `curl -s http://127.0.0.1:${port}/`)).toBe("the api");
    await said(b, "true");
    expect(await said(a, `exec 3<>/dev/tcp/${b.privateAddress}/22; head -c 4 <&3`)).toBe("SSH-");
    expect(await said(a, "(exec 3<>/dev/tcp/192.0.2.1/80) 2>&1 | grep -o unreachable | head -n 1")).toBe("unreachable");
    await new Promise((resolve) => void api.close(resolve));
  });

  test("a network interface of the same name from another fleet is left alone", async () => {
    const machine = await boot("m-1");
    const name = /svcsim[0-9]+/.exec((await links())[0] ?? "")?.[0] ?? "";
    // The first process of the machine ends, and with it its network.
    await login(way(machine));
    await ssh(way(machine), "kill -USR2 1");
    await eventually(async () => (await links()).length === 0);
    await tool("ip", ["link", "add", name, "type", "veth", "peer", "name", `${name}p`]);
    try {
      await tool("ip", ["link", "set", name, "alias", "svcsim-owner-1"]);
      await machine.destroy();
      expect(await tool("ip", ["-o", "link", "show", "dev", name])).toContain("svcsim-owner-1");
    } finally {
      await tool("ip", ["link", "del", name]);
    }
  });

  test("a cut wire is silent and heals; a frozen machine resumes; a slow link is slow", async () => {
    const machine = await boot("w-1");
    await said(machine, "true");
    await machine.cut();
    expect(await answers(machine)).toBe(false);
    await machine.heal();
    expect(await said(machine, "echo back")).toBe("back");
    await machine.freeze();
    const during = said(machine, "echo thawed");
    const first = await Promise.race([during, new Promise((resolve) => void setTimeout(resolve, 400, "still frozen"))]);
    expect(first).toBe("still frozen");
    await machine.thaw();
    expect(await during).toBe("thawed");
    await machine.rate(800);
    const startMs = performance.now();
    expect((await said(machine, "head -c 200000 /dev/urandom | base64 -w0")).length).toBeGreaterThan(260_000);
    expect(performance.now() - startMs).toBeGreaterThan(1_500);
  });

  test("keys can be refused, added and accepted again; the host key can change; the disk can fill", async () => {
    const machine = await boot("k-1", { authorizedKeys: [] });
    await eventually(async () => (await ssh(way(machine), "true")).err.includes("Permission denied"));
    await machine.addKey(parts.publicKey);
    expect(await said(machine, "echo in")).toBe("in");
    await machine.refuseKeys(true);
    expect((await ssh(way(machine), "true")).err).toContain("Permission denied");
    await machine.refuseKeys(false);
    const before = machine.hostKey;
    await machine.changeHostKey();
    await eventually(async () =>
      (await tool("ssh-keyscan", ["-t", "ed25519", machine.address]).catch(() => "")).includes(machine.hostKey),
    );
    expect(machine.hostKey).not.toBe(before);
    await machine.fillDisk();
    expect(await said(machine, "echo x >/root/x 2>&1 || echo full")).toContain("full");
  });

  test("a restart ends all processes, runs the start script again, and wipes only on request", async () => {
    const machine = await boot("r-1", { startScript: "echo run >>/workspace/runs; exec sleep 1234" });
    await said(machine, "echo kept >/root/kept");
    await machine.restart({ wipe: false });
    expect(await said(machine, "cat /root/kept; pgrep -cf 'sleep 123[4]'")).toBe("kept\n1");
    await eventually(async () => (await said(machine, "cat /workspace/runs")) === "run\nrun");
    await machine.restart({ wipe: true });
    expect(await said(machine, "ls /root | wc -l")).toBe("0");
  });

  test("a user that is not root works as itself, and as root without a password", async () => {
    const machine = await boot("u-1", { user: "ubuntu" });
    expect(await said(machine, "id -un; sudo -n id -u; cd /tmp && sudo -n pwd", "ubuntu")).toBe("ubuntu\n0\n/tmp");
    expect((await ssh(way(machine), "true")).err).toContain("Permission denied");
  });

  test("a machine that is destroyed during its boot leaves nothing, at any stage", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const booting = boot(`early-${round}`).catch(() => undefined);
      await new Promise((resolve) => void setTimeout(resolve, (round * 60) / ROUNDS));
      await parts.fleet.machines()[0]?.destroy();
      await booting;
      expect([round, parts.fleet.machines()]).toEqual([round, []]);
    }
    // A machine that was left behind would continue to boot and create its link, which no event announces.
    await new Promise((resolve) => void setTimeout(resolve, 500));
    expect(await links()).toEqual([]);
  });

  test("twenty boot at once; a destroyed one no longer answers; nothing remains after close", async () => {
    const machines = await Promise.all(Array.from({ length: 20 }, (_, n) => boot(`n-${n}`)));
    expect(new Set(machines.map(({ address }) => address)).size).toBe(20);
    const names = await Promise.all(machines.map((machine) => said(machine, "hostname")));
    expect(names).toEqual(machines.map(({ name }) => name));
    await machines[0]!.destroy();
    expect(await answers(machines[0]!)).toBe(false);
    expect(await links()).toHaveLength(19);
    await parts.fleet.close();
    expect([await links(), parts.fleet.machines()]).toEqual([[], []]);
  });
});

describe.each([...(able ? (["namespaces"] as const) : []), "plain" as const])("%s machines", (kind) => {
  test("end with the process that booted them, even when it is killed", async () => {
    const script = join(import.meta.dirname, "machines.child.ts");
    const child = spawn(process.execPath, [script, parts.dir, kind, parts.publicKey], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const line = await new Promise<string>((resolve) => void child.stdout.setEncoding("utf8").once("data", resolve));
    const left = JSON.parse(line) as { address: string; port: number }[];
    expect(left).toHaveLength(2);
    const mine = () =>
      readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name) && name !== String(child.pid))
        .filter((pid) => {
          try {
            return (
              readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(parts.dir) ||
              readFileSync(`/proc/${pid}/environ`, "utf8").includes(`=${parts.dir}/`)
            );
          } catch {
            return false;
          }
        });
    expect(mine().length).toBeGreaterThan(0);
    child.kill("SIGKILL");
    await eventually(() => mine().length === 0);
  });
});

describe("plain machines", () => {
  test("are entered as the user of this computer, and every provider's settings say so", async () => {
    const fleet = await makeFleet({ dir: parts.dir, kind: "plain" });
    for (const name of SIM_NAMES) {
      const sim = await startSim(name, { ...parts, fleet, authorizedKeys: [parts.publicKey] });
      expect(sim.settings().credentials, name).toMatchObject({
        providers: { [name]: { ssh_user: userInfo().username } },
      });
      await sim.close();
    }
    await fleet.close();
  });

  test("end when they are closed, if nothing else keeps the process alive", async () => {
    const script = `
      const { makeFleet } = await import(${JSON.stringify(fileURLToPath(new URL("machines/fleet.ts", import.meta.url)))});
      const fleet = await makeFleet({ dir: ${JSON.stringify(parts.dir)}, kind: "plain" });
      await fleet.close();
      console.log("closed");
    `;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "pipe"] });
    const code = new Promise((resolve) => void child.once("close", resolve));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect({ code: await code, out, err }).toEqual({ code: 0, out: "closed\n", err: "" });
  });

  test("can be logged into, cut, healed, frozen, restarted and destroyed", async () => {
    const fleet = await makeFleet({ dir: parts.dir, kind: "plain" });
    try {
      const machine = await fleet.boot(
        request("p-1", { startScript: 'echo "$A" >"$SVC_SIM_MACHINE/out"', env: { A: "b" } }),
      );
      expect(await said(machine, 'echo "$SVC_SIM_MACHINE"')).toBe(join(parts.dir, "p-1"));
      expect(readFileSync(join(parts.dir, "p-1", "out"), "utf8")).toBe("b\n");
      for (const [break_, mend] of [
        [() => machine.cut(), () => machine.heal()],
        [() => machine.freeze(), () => machine.thaw()],
      ] as const) {
        await break_();
        const during = said(machine, "echo back");
        expect(await Promise.race([during, new Promise((resolve) => void setTimeout(resolve, 400, "silent"))])).toBe(
          "silent",
        );
        await mend();
        expect(await during).toBe("back");
      }
      await machine.restart({ wipe: false });
      await machine.refuseKeys(true);
      await eventually(async () => (await ssh(way(machine), "true")).err.includes("Permission denied"));
      await machine.destroy();
      expect(await answers(machine)).toBe(false);
    } finally {
      await fleet.close();
    }
  });
});
