// Machines for computers that allow no namespaces: each is an sshd on 127.0.0.x, with this computer's own files, behind
// a small relay that can be cut, slowed and held. They share the home; runs differ by their machine's name.
//
// P1. Every process of a machine has the machine's mark in its environment, by which the fleet finds and ends it.
// P2. A watchdog ends them when the process that booted them is gone.

import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import type { BootRequest, Fleet, SimMachine } from "../providers/parts.ts";
import { makeHostKey, processes, procText, signal } from "./host-tools.ts";

const MARK = "SVC_SIM_MACHINE";
/** sshd overwrites its own environment, so its processes are found by pid; all others have the mark. */
const WATCH = `cat >/dev/null
for round in 1 2 3; do
  for file in "$1"/*/sshd.pid; do
    [ -e "$file" ] || continue
    read -r pid <"$file"
    kill -9 "$pid" $(cat "/proc/$pid/task/$pid/children") 2>/dev/null
  done
  for process in /proc/[0-9]*; do
    tr '\\0' '\\n' <"$process/environ" 2>/dev/null | grep -qF "$2=$1/" && kill -9 "\${process#/proc/}" 2>/dev/null
  done
done`;

export async function plainFleet(dir: string): Promise<Fleet> {
  const machines = new Map<string, PlainMachine>();
  // The watchdog ends when this pipe ends, at the latest with this process.
  const watchdog = spawn("sh", ["-c", WATCH, "sh", dir, MARK], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  watchdog.on("error", () => undefined);
  watchdog.unref();
  (watchdog.stdin as unknown as { unref?: () => void }).unref?.();
  let count = Math.floor(Math.random() * 60_000);
  return {
    kind: "plain",
    machines: () => [...machines.values()],
    async boot(request) {
      if (!/^[a-zA-Z0-9][a-zA-Z0-9-]{0,62}$/.test(request.name)) throw new Error(`bad machine name ${request.name}`);
      if (machines.has(request.name)) throw new Error(`machine ${request.name} exists`);
      count += 1;
      const address = `127.${64 + (Math.floor(count / 250) % 128)}.${process.pid % 250}.${(count % 250) + 1}`;
      const machine = new PlainMachine(join(dir, request.name), request, address, () => machines.delete(request.name));
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
      await Promise.all([...machines.values()].map((machine) => machine.destroy()));
      if (watchdog.exitCode !== null || watchdog.signalCode !== null) return;
      const ended = new Promise((resolve) => void watchdog.once("exit", resolve));
      // Keeps this process alive until then; otherwise it might end before the rest of the cleanup.
      watchdog.ref();
      watchdog.kill("SIGKILL");
      await ended;
    },
  };
}

class PlainMachine implements SimMachine {
  readonly name: string;
  readonly address: string;
  hostKey = "";
  #port = 0;
  #inner = 0;
  #relay: Server | null = null;
  #held = false;
  #kbit: number | null = null;
  #destroyed = false;
  readonly #sockets = new Set<Socket>();
  readonly #dir: string;
  readonly #request: BootRequest;
  readonly #gone: () => void;

  constructor(dir: string, request: BootRequest, address: string, gone: () => void) {
    this.name = request.name;
    this.address = address;
    this.#dir = dir;
    this.#request = request;
    this.#gone = gone;
  }

  get port(): number {
    return this.#port;
  }
  get privateAddress(): string {
    return this.address;
  }

  get #path(): string {
    return `${this.#file("bin")}:${process.env["PATH"] ?? "/usr/bin:/bin:/usr/sbin:/sbin"}`;
  }

  /** A machine's actions on itself, such as a power-off, must not affect this computer. */
  #shield(): void {
    mkdirSync(this.#file("bin"), { recursive: true });
    const write = (name: string, text: string): void =>
      writeFileSync(join(this.#file("bin"), name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    for (const name of ["poweroff", "shutdown", "halt", "reboot", "systemctl"])
      write(name, `echo "${name}: not on a machine that shares its computer" >&2; exit 1`);
    write("sudo", `while :; do case $1 in -u) shift 2;; -*) shift;; *) break;; esac; done; exec "$@"`);
  }

  #file(part: string): string {
    return join(this.#dir, part);
  }

  async boot(): Promise<void> {
    const { authorizedKeys, user, startScript, bootMs } = this.#request;
    mkdirSync(this.#dir, { recursive: true, mode: 0o755 });
    this.#shield();
    if (existsSync("/run") && userInfo().uid === 0) mkdirSync("/run/sshd", { recursive: true });
    this.hostKey = await makeHostKey(this.#file("hostkey"));
    writeFileSync(this.#file("keys"), authorizedKeys.map((line) => `${line.trim()}\n`).join(""), { mode: 0o600 });
    writeFileSync(this.#file("revoked"), "");
    if (startScript !== null) writeFileSync(this.#file("start"), startScript);
    this.#inner = await freePort(this.address);
    writeFileSync(
      this.#file("sshd_config"),
      [
        `ListenAddress ${this.address}:${this.#inner}`,

        `HostKey ${this.#file("hostkey")}`,
        `AuthorizedKeysFile ${this.#file("keys")}`,
        `PidFile ${this.#file("sshd.pid")}`,
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UseDNS no",
        "MaxStartups 100",
        "PermitRootLogin prohibit-password",
        "Subsystem sftp internal-sftp",
        `RevokedKeys ${this.#file("revoked")}`,
        `AllowUsers ${userInfo().uid === 0 ? user : userInfo().username}`,
        `SetEnv ${MARK}=${this.#dir} "PATH=${this.#path}"`,
        "",
      ].join("\n"),
    );
    await this.#openRelay();
    setTimeout(() => this.#start(), bootMs).unref();
  }

  #start(): void {
    if (this.#destroyed) return;
    const env = { PATH: this.#path, [MARK]: this.#dir };
    spawn("/usr/sbin/sshd", ["-D", "-e", "-f", this.#file("sshd_config")], { stdio: "ignore", detached: true, env })
      .on("error", () => undefined)
      .unref();
    if (this.#request.startScript === null) return;
    const home = userInfo().homedir;
    spawn("/bin/sh", [this.#file("start")], {
      stdio: "ignore",
      detached: true,
      cwd: home,
      env: { ...env, HOME: home, ...this.#request.env, [MARK]: this.#dir },
    })
      .on("error", () => undefined)
      .unref();
  }

  #openRelay(): Promise<void> {
    const relay = createServer({ pauseOnConnect: true }, (outer) => {
      const inner = connect(this.#inner, this.address);
      for (const [a, b] of [
        [outer, inner],
        [inner, outer],
      ] as const) {
        this.#sockets.add(a);
        let freeAtMs = 0;
        a.on("data", (chunk) => {
          const kbit = this.#kbit;
          if (kbit === null) {
            if (b.write(chunk)) return;
            a.pause();
            b.once("drain", () => this.#held || a.resume());
            return;
          }
          a.pause();
          freeAtMs = Math.max(freeAtMs, Date.now()) + (chunk.length * 8) / kbit;
          setTimeout(() => b.write(chunk, () => this.#held || a.resume()), freeAtMs - Date.now()).unref();
        });
        a.on("end", () => b.end());
        a.on("error", () => b.destroy());
        a.on("close", () => {
          this.#sockets.delete(a);
          b.destroy();
        });
        if (this.#held) a.pause();
        else a.resume();
      }
    });
    this.#relay = relay;
    return new Promise((resolve, reject) => {
      relay.once("error", reject);
      relay.listen(this.#port, this.address, () => {
        const at = relay.address();
        if (at !== null && typeof at === "object") this.#port = at.port;
        resolve();
      });
    });
  }

  #own(): number[] {
    const mark = `${MARK}=${this.#dir}\0`;
    const listener = this.#listener();
    const children = procText(`/proc/${listener}/task/${listener}/children`).split(" ").filter(Boolean).map(Number);
    const marked = processes((pid) => pid !== process.pid && procText(`/proc/${pid}/environ`).includes(mark));
    return [...marked, ...children, ...(procText(`/proc/${listener}/cmdline`).includes("sshd") ? [listener] : [])];
  }

  #listener(): number {
    return Number(procText(this.#file("sshd.pid")).trim()) || 0;
  }

  async #endAll(): Promise<void> {
    for (let own = this.#own(); own.length > 0; own = this.#own()) {
      for (const pid of own) signal(pid, "SIGKILL");
      await new Promise((resolve) => void setTimeout(resolve, 5));
    }
  }

  async destroy(): Promise<void> {
    this.#destroyed = true;
    const relay = this.#relay;
    this.#relay = null;
    const closed = relay && new Promise((resolve) => void relay.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await this.#endAll();
    await closed;
    rmSync(this.#dir, { recursive: true, force: true });
    this.#gone();
  }

  /** `wipe` cannot remove files that all machines share. */
  async restart(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await this.#endAll();
    this.#start();
  }

  async cut(): Promise<void> {
    this.#held = true;
    for (const socket of this.#sockets) socket.pause();
  }
  async heal(): Promise<void> {
    this.#held = false;
    for (const socket of this.#sockets) socket.resume();
  }
  async freeze(): Promise<void> {
    for (const pid of this.#own()) signal(pid, "SIGSTOP");
  }
  async thaw(): Promise<void> {
    for (const pid of this.#own()) signal(pid, "SIGCONT");
  }
  async rate(kbit: number): Promise<void> {
    this.#kbit = kbit;
  }
  /** Does nothing: the disk is this computer's own, and a full one would disturb every other program. */
  async fillDisk(): Promise<void> {
    return Promise.resolve();
  }

  async changeHostKey(): Promise<void> {
    rmSync(this.#file("hostkey"));
    rmSync(this.#file("hostkey.pub"));
    this.hostKey = await makeHostKey(this.#file("hostkey"));
    if (this.#listener()) signal(this.#listener(), "SIGHUP");
  }

  async refuseKeys(refuse: boolean): Promise<void> {
    if (refuse) rmSync(this.#file("revoked"), { force: true });
    else writeFileSync(this.#file("revoked"), "");
  }

  async addKey(line: string): Promise<void> {
    appendFileSync(this.#file("keys"), `${line.trim()}\n`);
  }
}

function freePort(address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, address, () => {
      const at = probe.address();
      probe.close(() => resolve(at !== null && typeof at === "object" ? at.port : 0));
    });
  });
}
