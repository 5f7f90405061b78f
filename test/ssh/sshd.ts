// A separate real sshd on 127.0.0.x, for as long as a test needs it.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, Socket } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import type { SshEndpoint } from "../../src/domain/endpoint.ts";
import { DEADLINE_MS } from "../deadline.ts";

export const SSHD = "/usr/sbin/sshd";

export interface SshdOptions {
  /** Lines of an authorized_keys file. */
  authorizedKeys?: readonly string[];
  address?: string;
  port?: number;
  /** Lines at the beginning of its configuration, which therefore take precedence. */
  config?: readonly string[];
  /** Variables that every session sees. */
  env?: Readonly<Record<string, string>>;
}

/** Runs as the testing user, and accepts logins of that user. */
export class Sshd {
  readonly folder = mkdtempSync(join(tmpdir(), "svc-sshd-"));
  readonly address: string;
  port = 0;
  readonly #options: SshdOptions;
  #child: ChildProcess | null = null;
  #log = "";

  constructor(options: SshdOptions = {}) {
    this.#options = options;
    this.address = options.address ?? "127.0.0.1";
    this.changeHostKey();
    this.authorize(...(options.authorizedKeys ?? []));
  }

  static async start(options: SshdOptions = {}): Promise<Sshd> {
    const sshd = new Sshd(options);
    await sshd.start();
    return sshd;
  }

  get endpoint(): SshEndpoint {
    return { host: this.address, port: this.port, user: userInfo().username };
  }

  /** Its stderr so far: logins, refusals, commands. */
  get log(): string {
    return this.#log;
  }

  /** `ssh-ed25519 AAAA…` */
  get hostKeyLine(): string {
    return readFileSync(join(this.folder, "host_key.pub"), "utf8").trim();
  }

  /** Starts it, on the same port as before if it ran before. */
  async start(): Promise<void> {
    if (process.getuid?.() === 0) mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });
    this.port ||= this.#options.port ?? (await freePort(this.address));
    const sessionEnv = Object.entries(this.#options.env ?? {}).map(([name, value]) => `${name}=${value}`);
    writeFileSync(
      join(this.folder, "config"),
      [
        ...(this.#options.config ?? []),
        ...(sessionEnv.length > 0 ? [`SetEnv ${sessionEnv.join(" ")}`] : []),
        `ListenAddress ${this.address}`,
        `Port ${this.port}`,
        `HostKey ${join(this.folder, "host_key")}`,
        `AuthorizedKeysFile ${join(this.folder, "authorized_keys")}`,
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "StrictModes no",
        "PidFile none",
        "UseDNS no",
        "PrintMotd no",
        "PrintLastLog no",
        "MaxStartups 100",
        "LogLevel VERBOSE",
        "Subsystem sftp internal-sftp",
        "",
      ].join("\n"),
    );
    const child = spawn(SSHD, ["-D", "-e", "-f", join(this.folder, "config")], { stdio: ["ignore", "ignore", "pipe"] });
    this.#child = child;
    child.stderr.setEncoding("utf8");
    await new Promise<void>((resolve, reject) => {
      child.stderr.on("data", (text: string) => {
        this.#log += text;
        if (this.#log.includes(`Server listening on ${this.address} port ${this.port}.`)) resolve();
      });
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`sshd ended with ${code}: ${this.#log}`)));
    });
  }

  /** Accepts no new connections; existing sessions continue, as with the real one. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    this.#log = "";
    if (!child || child.exitCode !== null) return;
    child.kill("SIGCONT");
    child.kill("SIGTERM");
    await once(child, "exit");
  }

  /** Cuts all connections. */
  cut(): void {
    for (const pid of this.sessions()) signalPid(pid, "SIGKILL");
  }

  /** Stops it with all its sessions: the kernel accepts connections, but gets no answer. */
  pause(): void {
    for (const pid of [this.#child?.pid ?? 0, ...this.sessions()]) signalPid(pid, "SIGSTOP");
  }

  resume(): void {
    for (const pid of [...this.sessions(), this.#child?.pid ?? 0]) signalPid(pid, "SIGCONT");
  }

  /** Its processes except the first, and without those of the running commands. */
  sessions(): number[] {
    const found: number[] = [];
    const visit = (pid: number): void => {
      const children = spawnSync("ps", ["-o", "pid=,comm=", "--ppid", String(pid)], { encoding: "utf8" }).stdout;
      for (const [, child, name] of children.matchAll(/^\s*(\d+) (\S+)/gm)) {
        if (!name?.startsWith("sshd")) continue;
        found.push(Number(child));
        visit(Number(child));
      }
    };
    if (this.#child?.pid) visit(this.#child.pid);
    return found;
  }

  /** Takes effect at its next start. */
  changeHostKey(type = "ed25519"): void {
    const path = join(this.folder, "host_key");
    rmSync(path, { force: true });
    keygen(path, type);
  }

  /** From now on it accepts only these keys. */
  authorize(...lines: readonly string[]): void {
    writeFileSync(join(this.folder, "authorized_keys"), `${lines.join("\n")}\n`);
  }

  async close(): Promise<void> {
    this.resume();
    const sessions = this.sessions();
    await this.stop();
    for (const pid of sessions) signalPid(pid, "SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Makes a key pair with ssh-keygen: `path` and `path.pub`. */
export function keygen(path: string, type = "ed25519", passphrase = "", ...more: readonly string[]): void {
  const made = spawnSync("ssh-keygen", ["-q", "-t", type, "-N", passphrase, "-C", "test", "-f", path, ...more]);
  if (made.status !== 0) throw new Error(`ssh-keygen: ${made.stderr.toString()}`);
}

export async function freePort(address = "127.0.0.1"): Promise<number> {
  const server = createServer().listen(0, address);
  await once(server, "listening");
  const at = server.address();
  server.close();
  await once(server, "close");
  return typeof at === "object" && at ? at.port : 0;
}

/** Resolves once `holds` returns true; polls it frequently. */
export async function until(holds: () => boolean, what: string, ms = DEADLINE_MS): Promise<void> {
  const end = performance.now() + ms;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/**
 * A relay on 127.0.0.1 that can cut its connections, also once by itself after a number of bytes to the machine.
 * `delayMs` is the delay of each byte in each direction.
 */
export async function relay(
  to: { host: string; port: number },
  cutAfter = Infinity,
  delayMs = 0,
): Promise<{
  port: number;
  cut: () => void;
  bytes: () => number;
  close: () => void;
}> {
  const sockets = new Set<Socket>();
  let bytes = 0;
  const server = createServer((client) => {
    const machine = new Socket().connect(to.port, to.host);
    for (const socket of [client, machine]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => sockets.delete(socket));
    }
    client.on("data", (part) => {
      bytes += part.length;
      if (bytes <= cutAfter) return;
      cutAfter = Infinity;
      cut();
    });
    if (delayMs === 0) return void client.pipe(machine).pipe(client);
    for (const [from, into] of [
      [client, machine],
      [machine, client],
    ] as const) {
      from.setNoDelay();
      from.on("data", (part) => setTimeout(() => into.write(part), delayMs));
      from.on("end", () => setTimeout(() => into.end(), delayMs));
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const at = server.address();
  const cut = (): void => sockets.forEach((socket) => socket.resetAndDestroy());
  return {
    port: typeof at === "object" && at ? at.port : 0,
    cut,
    bytes: () => bytes,
    close: () => {
      server.close();
      cut();
    },
  };
}

function signalPid(pid: number, signal: NodeJS.Signals): void {
  try {
    if (pid > 0) process.kill(pid, signal);
  } catch {
    // It ended meanwhile.
  }
}
