// Machines out of Linux namespaces: network, mounts, processes, IPC and host name of their own, a disk in memory, and the
// computer's own /usr, read-only.
//
// N1. A machine's network and files exist only as long as its processes, so nothing remains to be cleaned up.
// N2. Its first process dies with the process that booted it, because the kernel kills it (machine.sh).

import { spawn, type ChildProcess } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync, appendFileSync } from "node:fs";
import { createServer, connect, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { BootRequest, Fleet, SimMachine } from "../providers/parts.ts";
import { endWithChildren, makeHostKey, processes, procLink, procText, signal, tool } from "./host-tools.ts";

/** A private network of RFC 2544, for measurements: unused elsewhere. */
const NETWORK = "198.18.0.0/15";
const LINK = "svcsim";
/** Locked while a process creates or removes a link. */
const LINKS_LOCK = "/run/svcsim.lock";
const SCRIPTS = ["machine.sh", "init.py", "nvidia-smi"] as const;

/** Whether this process has all rights that a machine needs. */
export async function mayMakeNamespaces(): Promise<boolean> {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return false;
  const trial =
    "ip link set lo up && ip link add svcsimt0 type veth peer name svcsimt1 && mount -t tmpfs trial /mnt && mount -t proc proc /proc";
  return tool("unshare", [
    "-n",
    "-m",
    "-u",
    "-i",
    "-p",
    "--fork",
    "--kill-child",
    "--propagation",
    "private",
    "sh",
    "-c",
    trial,
  ])
    .then(() => existsSync("/usr/sbin/sshd"))
    .catch(() => false);
}

export async function namespaceFleet(dir: string, binds: readonly string[] = []): Promise<Fleet> {
  await sweep();
  // Packets to a machine that is gone must not leave this computer by its default route.
  await tool("ip", ["route", "replace", "unreachable", NETWORK, "metric", "4294967295"]);
  const machines = new Map<string, Machine>();
  let slot = Math.floor(Math.random() * 32_768);
  let closed = false;
  return {
    kind: "namespaces",
    machines: () => [...machines.values()],
    async boot(request) {
      if (!/^[a-zA-Z0-9][a-zA-Z0-9-]{0,62}$/.test(request.name)) throw new Error(`bad machine name ${request.name}`);
      if (machines.has(request.name)) throw new Error(`machine ${request.name} exists`);
      if (closed) throw new Error("the fleet is closed");
      slot = (slot + 1) % 32_768;
      const machine = new Machine(join(dir, request.name), request, binds, slot, () => machines.delete(request.name));
      machines.set(request.name, machine);
      try {
        await machine.boot();
      } catch (error) {
        await machine.destroy();
        throw error;
      }
      return machine;
    },
    async close() {
      closed = true;
      await Promise.all([...machines.values()].map((machine) => machine.destroy()));
      await sweep();
    },
  };
}

/** Removes links whose owner is gone, and the route when no machine is left. */
async function sweep(): Promise<void> {
  const links = (await tool("ip", ["-o", "link", "show", "type", "veth"]).catch(() => ""))
    .split("\n")
    .filter((line) => line.includes(` ${LINK}`));
  let left = 0;
  for (const line of links) {
    const owner = Number(/svcsim-owner-([0-9]+)/.exec(line)?.[1]);
    const name = /^[0-9]+: ([^@:]+)/.exec(line)?.[1];
    // A link without an owner is just being created.
    if (name === undefined || Number.isNaN(owner) || signal(owner, 0)) left += 1;
    else await removeLink(name, owner);
  }
  if (left === 0) await tool("ip", ["route", "del", "unreachable", NETWORK]).catch(() => undefined);
}

/** Removes a link if it still belongs to this owner: after it disappears by itself, another fleet may use its name. */
async function removeLink(name: string, owner: number): Promise<void> {
  const script = 'ip -o link show dev "$0" | grep -Eq "svcsim-owner-$1([^0-9]|$)" && ip link del "$0"';
  await tool("flock", [LINKS_LOCK, "sh", "-c", script, name, String(owner)]).catch(() => undefined);
}

/** Disks are in this computer's memory: a full disk must not take all of it. */
const DISK_MB_MAX = 1_024;

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** The `index`-th of the four addresses of a slot; machine.sh counts the same way. */
function addressOf(slot: number, index: number): string {
  const n = slot * 4 + index;
  return `198.${18 + Math.floor(n / 65_536)}.${Math.floor(n / 256) % 256}.${n % 256}`;
}

class Machine implements SimMachine {
  readonly name: string;
  readonly port = 22;
  hostKey = "";
  #address = "";
  #gate = "";
  #slot: number;
  /** The pid of the machine's first process on this computer. */
  #pid = 0;
  #child: ChildProcess | null = null;
  #keyed: Promise<unknown> = Promise.resolve();
  #ended: Promise<void> = Promise.resolve();
  #destroyed: Promise<void> | null = null;
  readonly #doors = new Set<Server | Socket>();
  readonly #dir: string;
  readonly #request: BootRequest;
  readonly #binds: readonly string[];
  readonly #gone: () => void;

  constructor(dir: string, request: BootRequest, binds: readonly string[], slot: number, gone: () => void) {
    this.name = request.name;
    this.#dir = dir;
    this.#request = request;
    this.#binds = binds;
    this.#slot = slot;
    this.#gone = gone;
  }

  get address(): string {
    return this.#address;
  }
  get privateAddress(): string {
    return this.#address;
  }

  get ended(): Promise<void> {
    return this.#ended;
  }

  async boot(): Promise<void> {
    const startedMs = performance.now();
    const { name, user, env, startScript, authorizedKeys, bootMs, gpus, gpuName, diskMb, apiPort } = this.#request;
    if (!/^[a-z_][a-z0-9_-]{0,31}$/.test(user)) throw new Error(`bad user ${user}`);
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    const file = (part: string): string => join(this.#dir, part);
    for (const script of SCRIPTS) copyFileSync(join(import.meta.dirname, script), file(script));
    if (!existsSync(file("hostkey"))) this.hostKey = await (this.#keyed = makeHostKey(file("hostkey")));
    if (this.#destroyed) throw new Error(`machine ${name} was destroyed before it booted`);
    const variables = { PATH: "/usr/local/bin:/usr/bin:/usr/sbin", HOME: "/root", HOSTNAME: name, ...env };
    writeFileSync(
      file("env0"),
      Object.entries(variables)
        .map(([key, value]) => `${key}=${value}\0`)
        .join(""),
      { mode: 0o600 },
    );
    writeFileSync(file("keys"), authorizedKeys.map((line) => `${line.trim()}\n`).join(""));
    if (startScript !== null) writeFileSync(file("start"), startScript);
    const seconds = Math.max(0, bootMs - (performance.now() - startedMs)) / 1000;
    const request = {
      NAME: name,
      LOGIN: user,
      GPUS: String(gpus),
      GPU_NAME: gpuName,
      DISK_MB: String(Math.min(diskMb, DISK_MB_MAX)),
      API_PORT: String(apiPort ?? 0),
      BOOT_SECONDS: seconds.toFixed(3),
      OWNER: String(process.pid),
      LINKS_LOCK,
      BINDS: this.#binds.join(" "),
    };
    writeFileSync(
      file("request"),
      Object.entries(request)
        .map(([key, value]) => `${key}=${quoted(value)}\n`)
        .join(""),
    );

    const child = spawn("bash", [file("machine.sh"), "host", this.#dir, String(this.#slot)], {
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      env: { PATH: process.env["PATH"] ?? "/usr/bin:/usr/sbin:/bin:/sbin" },
    });
    this.#child = child;
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-4000)));
    this.#ended = new Promise((resolve) => void child.once("close", () => resolve()));
    child.on("error", () => undefined);
    const up = await new Promise<string>((resolve, reject) => {
      let line = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        line += text;
        if (line.endsWith("\n")) resolve(line);
      });
      void this.#ended.then(() => reject(new Error(`machine ${name} did not come up: ${said}`)));
    });
    const [, pid, slot] = /^up ([0-9]+) ([0-9]+)\n/m.exec(up) ?? [];
    this.#pid = Number(pid);
    this.#slot = Number(slot);
    this.#address = addressOf(this.#slot, 2);
    this.#gate = addressOf(this.#slot, 1);
    rmSync(file("env0"));
    child.unref();
    if (apiPort !== null) await this.#openDoor(apiPort);
  }

  /** The simulator's API, on this machine's end of the wire, so that a cut wire cuts it too. */
  #openDoor(apiPort: number): Promise<void> {
    const door = createServer((inner) => {
      const api = connect(apiPort, "127.0.0.1");
      for (const [a, b] of [
        [inner, api],
        [api, inner],
      ] as const) {
        this.#doors.add(a);
        a.on("error", () => b.destroy());
        a.on("close", () => {
          this.#doors.delete(a);
          b.destroy();
        });
        a.pipe(b);
      }
    });
    this.#doors.add(door);
    return new Promise((resolve, reject) => {
      door.once("error", reject);
      door.listen(apiPort, this.#gate, () => resolve());
    });
  }

  destroy(): Promise<void> {
    this.#destroyed ??= (async () => {
      await this.#keyed.catch(() => undefined);
      this.#child?.ref();
      if (this.#pid) signal(this.#pid, "SIGKILL");
      if (this.#child?.pid && this.#child.exitCode === null && this.#child.signalCode === null)
        await endWithChildren(this.#child.pid);
      for (const door of this.#doors) {
        if ("destroy" in door) door.destroy();
        else door.close();
      }
      await this.#ended;
      // The kernel removes unused networks with a delay; the link is the visible part.
      if (this.#address !== "") await removeLink(`${LINK}${this.#slot}`, process.pid);
      rmSync(this.#dir, { recursive: true, force: true });
      this.#gone();
    })();
    return this.#destroyed;
  }

  async restart({ wipe }: { wipe: boolean }): Promise<void> {
    const done = this.#inside("/etc/sim/restarts");
    const before = procText(done).length;
    if (wipe) writeFileSync(this.#inside("/etc/sim/wipe"), "");
    signal(this.#pid, "SIGUSR1");
    for (let look = 0; procText(done).length === before && this.#alive(); look += 1) {
      if (look > 3_000) throw new Error(`machine ${this.name} did not restart`);
      await new Promise((resolve) => void setTimeout(resolve, 10));
    }
  }

  // Frames to an address without an interface are lost silently, in both directions.
  async cut(): Promise<void> {
    const nowhere = ["lladdr", "02:00:00:00:00:01", "nud", "permanent"];
    await tool("ip", ["neigh", "replace", this.#address, "dev", `${LINK}${this.#slot}`, ...nowhere]);
    await this.#net("ip", "neigh", "replace", this.#gate, "dev", "eth0", ...nowhere);
  }

  async heal(): Promise<void> {
    await tool("ip", ["neigh", "del", this.#address, "dev", `${LINK}${this.#slot}`]).catch(() => undefined);
    await this.#net("ip", "neigh", "del", this.#gate, "dev", "eth0").catch(() => undefined);
  }

  async rate(kbit: number): Promise<void> {
    const shape = ["root", "tbf", "rate", `${kbit}kbit`, "burst", "32k", "latency", "400ms"];
    await tool("tc", ["qdisc", "replace", "dev", `${LINK}${this.#slot}`, ...shape]);
    await this.#net("tc", "qdisc", "replace", "dev", "eth0", ...shape);
  }

  freeze(): Promise<void> {
    return this.#signalAll("SIGSTOP");
  }

  thaw(): Promise<void> {
    return this.#signalAll("SIGCONT");
  }

  async fillDisk(): Promise<void> {
    await tool("dd", ["if=/dev/zero", `of=${this.#inside("/var/tmp/full")}`, "bs=1M"]).catch((error: unknown) => {
      if (!String(error).includes("No space left")) throw error;
    });
  }

  async changeHostKey(): Promise<void> {
    const path = join(this.#dir, "hostkey.new");
    this.hostKey = await makeHostKey(path);
    writeFileSync(this.#inside("/etc/ssh/hostkey"), readFileSync(path), { mode: 0o600 });
    rmSync(path);
    rmSync(`${path}.pub`);
    const inner = procText(this.#inside("/run/sshd.pid")).trim();
    // Before sshd has started, it will read the new key anyhow.
    if (inner !== "")
      await tool("nsenter", ["-t", String(this.#pid), "-p", "-m", "sh", "-c", `kill -HUP ${Number(inner)}`]).catch(
        () => undefined,
      );
  }

  async refuseKeys(refuse: boolean): Promise<void> {
    if (refuse) rmSync(this.#inside("/etc/ssh/revoked"), { force: true });
    else writeFileSync(this.#inside("/etc/ssh/revoked"), "");
  }

  async addKey(line: string): Promise<void> {
    const home = this.#request.user === "root" ? "/root" : `/home/${this.#request.user}`;
    appendFileSync(this.#inside(`${home}/.ssh/authorized_keys`), `${line.trim()}\n`);
  }

  #inside(path: string): string {
    return `/proc/${this.#pid}/root${path}`;
  }

  #alive(): boolean {
    return this.#destroyed === null && signal(this.#pid, 0);
  }

  #net(...argv: [string, ...string[]]): Promise<string> {
    return tool("nsenter", [`--net=/proc/${this.#pid}/ns/net`, ...argv]);
  }

  /** Repeats until a pass finds no process without the signal: processes may fork meanwhile. */
  async #signalAll(name: "SIGSTOP" | "SIGCONT"): Promise<void> {
    const own = procLink(`/proc/${this.#pid}/ns/pid`);
    if (own === null) return;
    const told = new Set<number>();
    for (;;) {
      const fresh = processes((pid) => !told.has(pid) && procLink(`/proc/${pid}/ns/pid`) === own);
      if (fresh.length === 0) return;
      for (const pid of fresh) {
        signal(pid, name);
        told.add(pid);
      }
    }
  }
}
