// svc as a user runs it: `svc serve`, a job by HTTP, `svc jobs`, `svc kill --all`.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { hasEnded, type JOB_STATUSES } from "../../src/schemas/names.ts";
import { addEndedJobs } from "../lib/ended-jobs.ts";
import { bareEnv, launch, PRICE_CAP, run, type Contestant, type Ground, type Ran } from "./contestant.ts";

const PORT = "46999";
const API = `http://127.0.0.1:${PORT}`;

export class Ours implements Contestant {
  readonly name = "svc";
  readonly #ground: Ground;
  readonly #env: NodeJS.ProcessEnv;

  constructor(ground: Ground) {
    this.#ground = ground;
    this.#env = bareEnv(ground.dir, {
      SVC_HOME: join(ground.dir, "home"),
      SVC_GATE_INDEX: "off",
      SVC_PODHOST_URL: ground.simUrl ?? "http://127.0.0.1:9",
      PODHOST_API_KEY: ground.apiKey,
    });
    mkdirSync(join(ground.dir, "project"), { recursive: true });
    writeFileSync(
      join(ground.dir, "project/train.py"),
      'print("the first line", flush=True)\nimport time\ntime.sleep(3600)\n',
    );
  }

  get #cwd(): string {
    return join(this.#ground.dir, "project");
  }

  get #program(): string {
    return join(this.#ground.venvs, "svc/bin/svc");
  }

  #svc(args: readonly string[], limitMs?: number): Promise<Ran> {
    return run(this.#program, args, { cwd: this.#cwd, env: this.#env, ...(limitMs !== undefined && { limitMs }) });
  }

  async start(): Promise<number> {
    const path = join(this.#ground.dir, "serve.log");
    const start = performance.now();
    const child = launch(this.#program, ["serve", "--port", PORT, "--json"], {
      cwd: this.#cwd,
      env: this.#env,
      log: path,
    });
    let code: number | null = null;
    child.on("exit", (ended) => (code = ended ?? -1));
    for (;;) {
      try {
        if ((await fetch(`${API}/v1/health`)).ok) break;
      } catch (error) {
        if (code !== null)
          throw new Error(`svc serve ended: ${readFileSync(path, "utf8").slice(-1_500)}`, { cause: error });
      }
      await pause(20);
    }
    return performance.now() - start;
  }

  async submit(): Promise<void> {
    const spec = {
      entrypoint: "train.py",
      project_dir: this.#cwd,
      provider: "podhost",
      gpus: "RTX4090:1",
      price_cap: PRICE_CAP,
      install: "none",
    };
    try {
      const answer = await fetch(`${API}/jobs`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ spec }),
      });
      const text = await answer.text();
      writeFileSync(join(this.#ground.dir, "submit.log"), `${answer.status} ${text}\n`, { flag: "a" });
    } catch (error) {
      // It was killed before it answered.
      writeFileSync(join(this.#ground.dir, "submit.log"), `${String(error)}\n`, { flag: "a" });
    }
  }

  async stop(): Promise<void> {
    await this.#svc(["kill", "--all"], 300_000);
  }

  async open(): Promise<string> {
    const { out } = await this.#svc(["jobs", "--json", "id,status"], 300_000);
    const rows = JSON.parse(out.slice(out.indexOf("["))) as { id: string; status: (typeof JOB_STATUSES)[number] }[];
    return rows
      .filter(({ status }) => !hasEnded(status))
      .map(({ id, status }) => `${id}: ${status}`)
      .join("; ");
  }

  async listByCommand(): Promise<Ran> {
    const ran = await this.#svc(["jobs"]);
    if (ran.code !== 0) throw new Error(`svc jobs: ${ran.out.slice(-1_500)}`);
    return ran;
  }

  async listByApi(): Promise<number> {
    const start = performance.now();
    const answer = await fetch(`${API}/jobs`);
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`GET /jobs: ${answer.status}`);
    return performance.now() - start;
  }

  quiet(): Promise<void> {
    return Promise.resolve();
  }

  async fill(rows: number): Promise<void> {
    await addEndedJobs(join(this.#ground.dir, "home"), rows);
  }
}
