// dstack as a user runs it: its own server on this computer, `dstack apply`, `dstack ps`, `dstack stop`.
//
// Its client has the provider's address as a constant: `dstack_server.py` turns it, in the server's process, and changes
// nothing else. GPUHUNT_CATALOG_URL names a price list with one GPU in three zones, at the simulator's price.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pause } from "../lib/measure.ts";
import { bareEnv, launch, PRICE, PRICE_CAP, run, ZONES, type Contestant, type Ground, type Ran } from "./contestant.ts";

const API = "http://127.0.0.1:3999";
const TOKEN = "11111111-2222-4333-8444-555555555555";
const CSV_HEAD =
  "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,provider_data";

export class Dstack implements Contestant {
  readonly name = "dstack";
  readonly #ground: Ground;
  readonly #env: NodeJS.ProcessEnv;
  #runs = 0;
  #written = false;
  #fleet = false;

  constructor(ground: Ground) {
    this.#ground = ground;
    const { dir } = ground;
    this.#env = bareEnv(dir, {
      PEERS_URL: ground.simUrl ?? "http://127.0.0.1:9",
      GPUHUNT_CATALOG_URL: `file://${dir}/catalog`,
      DSTACK_SERVER_ADMIN_TOKEN: TOKEN,
    });
    mkdirSync(join(dir, "catalog/runpod/1"), { recursive: true });
    mkdirSync(join(dir, ".dstack/server"), { recursive: true });
    const backend = `{type: runpod, creds: {type: api_key, api_key: ${ground.apiKey}}}`;
    const backends = ground.simUrl === null ? "" : `\n  backends:\n  - ${backend}`;
    writeFileSync(join(dir, ".dstack/server/config.yml"), `projects:\n- name: main${backends}\n`);
    writeFileSync(
      join(dir, "task.dstack.yml"),
      `type: task\nname: peer\ncommands: [echo the first line]\nresources:\n  gpu: RTX4090:1\nmax_price: ${PRICE_CAP}\n`,
    );
    writeFileSync(
      join(dir, "fleet.dstack.yml"),
      "type: fleet\nname: peers\nnodes: 0..4\nresources:\n  gpu: RTX4090:1\n",
    );
  }

  /** Its price list is a zip file; Python, which dstack brings anyway, makes it. */
  async #catalogue(): Promise<void> {
    if (this.#written) return;
    this.#written = true;
    const folder = join(this.#ground.dir, "catalog/runpod");
    const rows = ZONES.map(
      ({ zone }) => `NVIDIA GeForce RTX 4090,${zone},${PRICE},6,40,1,RTX4090,24,False,,nvidia,,x86,{}`,
    );
    writeFileSync(join(folder, "version"), "1");
    writeFileSync(join(folder, "1/runpod.csv"), `${[CSV_HEAD, ...rows].join("\n")}\n`);
    const options = { cwd: join(folder, "1"), env: this.#env };
    const ran = await run(this.#program("python"), ["-m", "zipfile", "-c", "catalog.zip", "runpod.csv"], options);
    if (ran.code !== 0) throw new Error(ran.out);
  }

  #program(name: string): string {
    return join(this.#ground.venvs, "dstack/bin", name);
  }

  #dstack(args: readonly string[], limitMs?: number): Promise<Ran> {
    const options = { cwd: this.#ground.dir, env: this.#env, ...(limitMs !== undefined && { limitMs }) };
    return run(this.#program("dstack"), args, options);
  }

  async start(): Promise<number> {
    await this.#catalogue();
    const args = [
      join(import.meta.dirname, "dstack_server.py"),
      "server",
      "-y",
      "--host",
      "127.0.0.1",
      "--port",
      "3999",
    ];
    const start = performance.now();
    const child = launch(this.#program("python"), args, {
      cwd: this.#ground.dir,
      env: this.#env,
      log: join(this.#ground.dir, "server.log"),
    });
    let ended = false;
    child.on("exit", () => (ended = true));
    for (;;) {
      try {
        if ((await this.#post("/api/projects/main/runs/get_plan", {})).status !== 401) break;
      } catch (error) {
        if (ended) throw new Error(`dstack server ended: see ${this.#ground.dir}/server.log`, { cause: error });
      }
      await pause(20);
    }
    return performance.now() - start;
  }

  #post(path: string, body: unknown): Promise<Response> {
    return fetch(`${API}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify(body),
    });
  }

  async submit(): Promise<void> {
    // A project needs a fleet before its first run; this one holds no machine of its own.
    if (!this.#fleet) {
      const made = await this.#dstack(["apply", "-f", "fleet.dstack.yml", "-y", "-d"], 600_000);
      if (made.code !== 0) throw new Error(`dstack apply, fleet: ${made.out.slice(-1_500)}`);
      this.#fleet = true;
    }
    const ran = await this.#dstack(
      ["apply", "-f", "task.dstack.yml", "-y", "-d", "-n", `peer${++this.#runs}`],
      600_000,
    );
    writeFileSync(join(this.#ground.dir, "apply.log"), ran.out, { flag: "a" });
  }

  async stop(): Promise<void> {
    for (let n = 1; n <= this.#runs; n++) await this.#dstack(["stop", "-y", `peer${n}`], 300_000);
  }

  async open(): Promise<string> {
    const runs = (await (await this.#post("/api/runs/list", { only_active: true })).json()) as {
      run_spec: { run_name: string };
      status: string;
    }[];
    const instances = (await (await this.#post("/api/instances/list", { only_active: true })).json()) as {
      name: string;
      status: string;
    }[];
    return [
      ...runs.map((r) => `run ${r.run_spec.run_name}: ${r.status}`),
      ...instances.map((i) => `instance ${i.name}: ${i.status}`),
    ].join("; ");
  }

  async listByCommand(): Promise<Ran> {
    const ran = await this.#dstack(["ps", "-n", "50"]);
    if (ran.code !== 0) throw new Error(`dstack ps: ${ran.out.slice(-1_500)}`);
    return ran;
  }

  async listByApi(): Promise<number> {
    const start = performance.now();
    const answer = await this.#post("/api/runs/list", { limit: 50 });
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`/api/runs/list: ${answer.status}`);
    return performance.now() - start;
  }

  quiet(): Promise<void> {
    return Promise.resolve();
  }

  async fill(rows: number): Promise<void> {
    const script = join(import.meta.dirname, "dstack_fill.py");
    const ran = await run(this.#program("python"), [script, String(rows)], {
      cwd: this.#ground.dir,
      env: this.#env,
      limitMs: 900_000,
    });
    if (ran.code !== 0) throw new Error(`filling dstack: ${ran.out.slice(-1_500)}`);
  }
}
