// A machine for tests: a real sshd, a separate home, and the agent over a real connection.

import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SshEndpoint } from "../../src/domain/endpoint.ts";
import type { RunnerSpec, RunnerStatus } from "../../src/schemas/runner.ts";
import { HostKeyPins } from "../../src/ssh/host-keys.ts";
import { loadSshKey, type SshKey } from "../../src/ssh/keys.ts";
import { MachineLink } from "../../src/ssh/machine-link.ts";
import { RemoteHost } from "../../src/ssh/remote-host.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { agentPath, runner, runnerPath } from "../runner/programs.ts";
import { Sshd, type SshdOptions } from "./sshd.ts";

export { agentPath, runnerPath };
export const never = new AbortController().signal;

export class TestMachine {
  readonly sshd: Sshd;
  readonly key: SshKey;
  readonly folder: string;
  /** The home of the control plane. */
  readonly here: string;
  /** The home of the user on the machine. */
  readonly home: string;
  readonly name = `svc-test-${randomBytes(4).toString("hex")}`;
  readonly pins: HostKeyPins;
  readonly links: MachineLink[] = [];
  readonly hosts: RemoteHost[] = [];
  endpoints: SshEndpoint[] = [];

  private constructor(sshd: Sshd, key: SshKey, folder: string) {
    this.sshd = sshd;
    this.key = key;
    this.folder = folder;
    this.here = join(folder, "here");
    this.home = join(folder, "home");
    this.pins = new HostKeyPins(this.here);
    this.endpoints = [sshd.endpoint];
  }

  static async start(options: SshdOptions = {}): Promise<TestMachine> {
    const folder = mkdtempSync(join(tmpdir(), "svc-machine-"));
    const [here, home] = [join(folder, "here"), join(folder, "home")];
    mkdirSync(here, { mode: 0o700 });
    mkdirSync(home, { mode: 0o700 });
    const key = await loadSshKey({ path: null, home: here });
    const sshd = await Sshd.start({
      authorizedKeys: [key.publicKeyLine],
      ...options,
      env: { HOME: home, ...options.env },
    });
    return new TestMachine(sshd, key, folder);
  }

  link(): MachineLink {
    const link = new MachineLink({
      machine: this.name,
      endpoints: () => this.endpoints,
      key: () => Promise.resolve(this.key),
      pins: this.pins,
      agentSource: () => readFileSync(agentPath),
    });
    this.links.push(link);
    return link;
  }

  get base(): string {
    return join(this.home, ".svc-machine", this.name);
  }

  host(link = this.link(), purpose = "run"): RemoteHost {
    const runDir = join(this.base, purpose);
    const host = new RemoteHost({
      machine: this.name,
      runDir,
      runner,
      agent: link.agent,
    });
    this.hosts.push(host);
    return host;
  }

  /** A shell script as a run, or an argument vector. */
  spec(argv: string[] | string, changes: Partial<RunnerSpec> = {}): RunnerSpec {
    return {
      job_id: "job1",
      node: 0,
      attempt: 1,
      nonce: randomBytes(16).toString("hex"),
      argv: typeof argv === "string" ? ["sh", "-c", argv] : argv,
      cwd: this.home,
      env: {},
      checkpoint_dir: join(this.base, "checkpoints"),
      stop_grace_seconds: 0.5,
      spool_cap_bytes: 64 << 20,
      sample_seconds: 10,
      ...changes,
    };
  }

  async close(): Promise<void> {
    this.sshd.resume();
    for (const host of this.hosts) await host.stop(0, AbortSignal.timeout(DEADLINE_MS)).catch(() => undefined);
    for (const link of this.links) link.close();
    await this.sshd.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function ended(host: RemoteHost): Promise<RunnerStatus> {
  for (;;) {
    const status = await host.status(never);
    if (status && status.phase !== "running") return status;
    await host.follow({ offset: Number.MAX_SAFE_INTEGER, max: 0, seen: Number.MAX_SAFE_INTEGER, waitMs: 5_000 }, never);
  }
}

/** Waits until the log contains `text`; returns the log up to there. */
export async function until(host: RemoteHost, text: string): Promise<string> {
  for (;;) {
    const { bytes } = await host.readLog(0, 1 << 20, never);
    if (bytes.includes(text)) return bytes.toString();
    const status = await host.status(never);
    if (status?.phase !== "running") throw new Error(`ended before it said ${text}: ${bytes.toString()}`);
    await host.follow({ offset: bytes.length, max: 0, seen: bytes.length, waitMs: 5_000 }, never);
  }
}
