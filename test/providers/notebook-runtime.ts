// A notebook runtime in a folder: the bootstrap cell runs there for real, with an sshd on loopback; programs that would
// be downloaded (apt-get, the tunnels') are in its folder `bin`.

import { execFile, execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { bootstrapCell } from "../../src/providers/notebook/bootstrap.ts";
import { DEADLINE_MS } from "../deadline.ts";

export interface Said {
  out: string;
  /** The cell's output for svc; null if it is not connected. */
  endpoint: { host: string; port: number; user: string; hostKey: string } | null;
}

export class Runtime {
  readonly dir = mkdtempSync(join(tmpdir(), "svc-notebook-"));
  readonly key = join(this.dir, "id");
  readonly base: string;
  /** The port of the cell's sshd; the stub tunnels report it as the public port, too. */
  port = 0;

  /** `cell` is the source of the cell; by default one with the key of this runtime. */
  constructor(cell?: string) {
    for (const folder of ["bin", "home", "root"]) mkdirSync(join(this.dir, folder));
    this.base = userInfo().uid === 0 ? join(this.dir, "root/etc/ssh/svc") : join(this.dir, "home/.svc-ssh");
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "of a test", "-f", this.key]);
    writeFileSync(join(this.dir, "cell.py"), cell ?? bootstrapCell(readFileSync(`${this.key}.pub`, "utf8")));
    for (const name of ["apt-get", "ldconfig", "usermod", "rsync"]) this.program(name, 'echo "$0 $@" >>"$DIR/calls"');
    this.program("bore", 'echo "INFO bore_cli: listening at 127.0.0.1:$2"; exec sleep 300');
  }

  async open(): Promise<this> {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    this.port = (server.address() as AddressInfo).port;
    await new Promise((resolve) => server.close(resolve));
    return this;
  }

  program(name: string, body: string, interpreter = "/bin/sh"): void {
    writeFileSync(join(this.dir, "bin", name), `#!${interpreter}\n${body}\n`);
    chmodSync(join(this.dir, "bin", name), 0o755);
  }

  /** Runs the cell's own functions, with the sandbox in place of the runtime's root. */
  python(code: string, env: NodeJS.ProcessEnv = {}, input = ""): Promise<string> {
    const whole = `import runpy\ncell = runpy.run_path("cell.py", run_name="cell")\n${code}`;
    return new Promise((resolve, reject) => {
      const child = execFile(
        "python3",
        ["-c", whole],
        {
          cwd: this.dir,
          timeout: DEADLINE_MS,
          env: {
            HOME: join(this.dir, "home"),
            DIR: this.dir,
            SSHD_PORT: String(this.port),
            PATH: `${join(this.dir, "bin")}:${process.env["PATH"] ?? ""}`,
            ...env,
          },
        },
        (error, stdout, stderr) =>
          error ? reject(new Error(`${error.message}\n${stdout}`)) : resolve(stdout + stderr),
      );
      child.stdin?.end(input);
    });
  }

  async connect(tunnel: string, env: NodeJS.ProcessEnv = {}, before = "", seconds = 20): Promise<Said> {
    const where = `root=${JSON.stringify(join(this.dir, "root"))}, home=${JSON.stringify(join(this.dir, "home"))}`;
    const out = await this.python(
      `${before}\ncell["connect"](tunnel="${tunnel}", ${where}, port=${this.port}, seconds=${seconds})`,
      env,
    );
    const line = /^SVC-ENDPOINT (.*)$/m.exec(out)?.[1];
    return { out, endpoint: line === undefined ? null : (JSON.parse(line) as Said["endpoint"]) };
  }

  /** Logs in as svc would, with only the data that the cell printed. */
  ssh(
    to: NonNullable<Said["endpoint"]>,
    command: string,
    options: string[] = [],
  ): Promise<{ rc: number; out: string }> {
    const known = join(this.dir, "known");
    writeFileSync(known, `[${to.host}]:${to.port} ${to.hostKey}\n`);
    const always = ["StrictHostKeyChecking=yes", `UserKnownHostsFile=${known}`, "IdentitiesOnly=yes", "BatchMode=yes"];
    const args = ["-F", "none", "-i", this.key, ...[...options, ...always].flatMap((option) => ["-o", option])];
    return new Promise((resolve) => {
      const all = [...args, "-p", String(to.port), "--", `${to.user}@${to.host}`, command];
      execFile("ssh", all, { timeout: DEADLINE_MS }, (error, stdout, stderr) =>
        resolve({ rc: error ? Number(error.code ?? 1) : 0, out: stdout + stderr }),
      );
    });
  }

  file(path: string): string {
    return readFileSync(join(this.base, path), "utf8");
  }

  tunnelPid(): number | null {
    if (!existsSync(join(this.base, "tunnel.json"))) return null;
    return (JSON.parse(this.file("tunnel.json")) as { pid: number }).pid;
  }

  /** Ends the daemon, the tunnel and their children, waits until they are gone, and removes the folder that they write to. */
  async close(): Promise<void> {
    const sshd = existsSync(join(this.base, "sshd.pid")) ? Number(this.file("sshd.pid")) : 0;
    for (const pid of [this.tunnelPid() ?? 0, sshd, ...this.#processes()]) {
      try {
        if (pid > 1) process.kill(pid);
      } catch {
        // The process ended by itself.
      }
    }
    const end = performance.now() + DEADLINE_MS;
    while (this.#processes().length > 0 && performance.now() < end) await new Promise((r) => setTimeout(r, 20));
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Processes that the cell started: they inherit the variable DIR. */
  #processes(): number[] {
    if (!existsSync("/proc/self/environ")) return [];
    return readdirSync("/proc")
      .filter((name) => /^[0-9]+$/.test(name) && Number(name) !== process.pid)
      .filter((name) => {
        try {
          return readFileSync(`/proc/${name}/environ`, "latin1").split("\0").includes(`DIR=${this.dir}`);
        } catch {
          return false;
        }
      })
      .map(Number);
  }
}
