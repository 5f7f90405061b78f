// Real `svc` processes on a home of their own, for tests of the CLI and the SDK.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { countStart } from "../control-planes.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { gathered, type Gathered } from "../gathered.ts";
import { PROGRAM } from "../program.ts";

export const CLI = join(import.meta.dirname, "../../bin/svc");

export interface Served {
  child: ChildProcess;
  url: string;
  err(): string;
  exited: Promise<number | null>;
}

export class Workplace {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "svc-cli-")));
  readonly home = join(this.root, "home");
  readonly project = join(this.root, "project");
  readonly env: NodeJS.ProcessEnv = {
    ...process.env,
    SVC_HOME: this.home,
    ...PROGRAM,
  };
  readonly #served: Served[] = [];
  readonly #own: string | null;

  /** For the one control plane that the tests of a file share. */
  constructor(own: string | null = null) {
    this.#own = own;
    mkdirSync(this.project);
  }

  /** For control planes that no other test uses; `why` says what a test does to them. */
  static own(why: string): Workplace {
    return new Workplace(why);
  }

  file(name: string, text: string): void {
    writeFileSync(join(this.project, name), text);
  }

  /** Runs one command to its end. */
  svc(...args: string[]): { code: number | null; out: string; err: string } {
    return this.svcIn(this.home, ...args);
  }

  /** The same, with another home. */
  svcIn(home: string, ...args: string[]): { code: number | null; out: string; err: string } {
    const env = { ...this.env, SVC_HOME: home };
    const r = spawnSync(CLI, args, { env, cwd: this.project, encoding: "utf8", timeout: DEADLINE_MS });
    return { code: r.status, out: r.stdout, err: r.stderr };
  }

  /** Starts one command. */
  start(...args: string[]): { child: ChildProcess } & Gathered {
    return this.startIn(this.home, ...args);
  }

  /** The same, with another home. */
  startIn(home: string, ...args: string[]): { child: ChildProcess } & Gathered {
    const env = { ...this.env, SVC_HOME: home };
    const child = spawn(CLI, args, { env, cwd: this.project, stdio: ["pipe", "pipe", "pipe"] });
    return { child, ...gathered(child) };
  }

  async serve(...args: string[]): Promise<Served> {
    countStart(this.#own);
    const { child, out, err, exited } = this.start("serve", "--port", "0", "--json", ...args);
    await until(() => out().includes("\n") || child.exitCode !== null, "svc serve is ready");
    if (child.exitCode !== null) throw new Error(`svc serve ended with ${child.exitCode}: ${err()}`);
    const served = { child, url: JSON.parse(out().split("\n")[0] ?? "").url as string, err, exited };
    this.#served.push(served);
    return served;
  }

  /** POST /jobs; returns the id. */
  async submit(served: Served, entrypoint: string, args: string[] = []): Promise<string> {
    const answer = await fetch(`${served.url}/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ spec: { entrypoint, args, project_dir: this.project } }),
    });
    if (answer.status !== 201) throw new Error(await answer.text());
    return ((await answer.json()) as { id: string }).id;
  }

  async status(served: Served, id: string): Promise<string> {
    return ((await (await fetch(`${served.url}/jobs/${id}`)).json()) as { status: string }).status;
  }

  async close(): Promise<void> {
    for (const s of this.#served) if (s.child.exitCode === null && s.child.signalCode === null) s.child.kill("SIGTERM");
    await Promise.all(this.#served.map((s) => s.exited));
    rmSync(this.root, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Polls until the condition holds; if it never does, the error names it. */
export async function until(is: () => boolean | Promise<boolean>, what: string, msMax = DEADLINE_MS): Promise<void> {
  for (const end = performance.now() + msMax; !(await is());) {
    if (performance.now() > end) throw new Error(`not within ${msMax} ms: ${what}`);
    await new Promise((r) => setTimeout(r, 25));
  }
}
