// SkyPilot as a user runs it: its own API server on this computer, `sky launch`, `sky status`, `sky down`.
//
// Its RunPod library takes the provider's address from RUNPOD_API_BASE_URL. It would download its price list: a list of one
// GPU in three zones, at the simulator's price, is in the place of one that its user has edited.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pause } from "../lib/measure.ts";
import { bareEnv, launch, PRICE, PRICE_CAP, run, ZONES, type Contestant, type Ground, type Ran } from "./contestant.ts";

const API = "http://127.0.0.1:46580";
const CSV_HEAD =
  "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Region,SpotPrice,Price,AvailabilityZone,GpuInfo";
const GPU_INFO =
  "\"{'Gpus': [{'Name': 'RTX4090', 'Count': 1.0, 'MemoryInfo': {'SizeInMiB': 24576}}], 'TotalGpuMemoryInMiB': 24576}\"";

export class SkyPilot implements Contestant {
  readonly name = "SkyPilot";
  readonly #ground: Ground;
  readonly #env: NodeJS.ProcessEnv;
  #clusters = 0;

  constructor(ground: Ground) {
    this.#ground = ground;
    const { dir } = ground;
    this.#env = bareEnv(dir, {
      SKYPILOT_DISABLE_USAGE_COLLECTION: "1",
      RUNPOD_API_KEY: ground.apiKey,
      RUNPOD_API_BASE_URL: ground.simUrl ?? "http://127.0.0.1:9",
    });
    mkdirSync(join(dir, ".runpod"), { recursive: true });
    mkdirSync(join(dir, ".sky/catalogs/v8/runpod"), { recursive: true });
    writeFileSync(join(dir, ".runpod/config.toml"), `[default]\napi_key = "${ground.apiKey}"\n`);
    writeFileSync(join(dir, ".sky/config.yaml"), "allowed_clouds: [runpod]\n");
    const rows = ZONES.map(
      ({ zone, region }) => `1x_RTX4090_SECURE,RTX4090,1.0,6.0,40.0,${region},0.35,${PRICE},${zone},${GPU_INFO}`,
    );
    writeFileSync(join(dir, ".sky/catalogs/v8/runpod/vms.csv"), `${[CSV_HEAD, ...rows].join("\n")}\n`);
    mkdirSync(join(dir, ".sky/catalogs/v8/common"), { recursive: true });
    writeFileSync(
      join(dir, ".sky/catalogs/v8/common/accelerators.csv"),
      "AcceleratorName,Clouds\nRTX4090,\"['RunPod']\"\n",
    );
    writeFileSync(join(dir, ".sky/catalogs/v8/common/metadata.csv"), "GPU,Memory,Manufacturer\nRTX4090,24GB,NVIDIA\n");
    const task = `resources:\n  infra: runpod\n  accelerators: RTX4090:1\n  max_hourly_cost: ${PRICE_CAP}\nrun: echo the first line\n`;
    writeFileSync(join(dir, "task.yaml"), task);
  }

  #sky(args: readonly string[], limitMs?: number): Promise<Ran> {
    const options = { cwd: this.#ground.dir, env: this.#env, ...(limitMs !== undefined && { limitMs }) };
    return run(this.#program("sky"), args, options);
  }

  #program(name: string): string {
    return join(this.#ground.venvs, "skypilot/bin", name);
  }

  async start(): Promise<number> {
    // `quiet` reads the log of this start.
    rmSync(join(this.#ground.dir, ".sky/api_server/server.log"), { force: true });
    const start = performance.now();
    // The command waits for a minute. On a busy computer the server needs longer, or ends: its user would start it again.
    for (let tries = 1; ; tries++) {
      const ran = await this.#sky(["api", "start"]);
      if (ran.code === 0 && tries === 1) return ran.ms;
      for (let looks = 0; looks < 300; looks++) {
        if (await healthy()) return performance.now() - start;
        await pause(200);
      }
      if (tries === 4) throw new Error(`sky api start: ${ran.out.slice(-1_500)}`);
    }
  }

  submit(): Promise<void> {
    // `sky launch` ends with the run: its output goes into a file, and the case continues.
    const args = ["launch", "-y", "-c", `peer${++this.#clusters}`, "task.yaml"];
    const child = launch(this.#program("sky"), args, {
      cwd: this.#ground.dir,
      env: this.#env,
      log: join(this.#ground.dir, "launch.log"),
    });
    child.unref();
    return Promise.resolve();
  }

  async stop(): Promise<void> {
    await this.#sky(["down", "-a", "-y"], 300_000);
  }

  async open(): Promise<string> {
    const { out } = await this.#sky(["status", "--refresh"], 300_000);
    return out
      .split("\n")
      .filter((line) => /^peer\d/.test(line))
      .join("; ");
  }

  async listByCommand(): Promise<Ran> {
    const ran = await this.#sky(["status"]);
    if (ran.code !== 0) throw new Error(`sky status: ${ran.out.slice(-1_500)}`);
    return ran;
  }

  /** SkyPilot answers every question in two calls: one asks, the other waits for the answer. */
  async listByApi(): Promise<number> {
    const start = performance.now();
    const asked = await fetch(`${API}/status`, {
      method: "POST",
      headers: { "content-type": "application/json", "X-SkyPilot-API-Version": "1000" },
      body: JSON.stringify({
        refresh: "NONE",
        all_users: true,
        env_vars: { SKYPILOT_USER_ID: "0badc0de", SKYPILOT_USER: "peers" },
        entrypoint: "peers",
        entrypoint_command: "peers",
      }),
    });
    const id = asked.headers.get("X-Skypilot-Request-ID") ?? asked.headers.get("X-Request-ID");
    if (!asked.ok || id === null) throw new Error(`POST /status: ${asked.status} ${await asked.text()}`);
    const answer = await fetch(`${API}/api/get?request_id=${id}`);
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`GET /api/get: ${answer.status}`);
    return performance.now() - start;
  }

  /** It asks the provider about each cluster every minute: with thousands of them, little else would run. */
  async quiet(): Promise<void> {
    const log = join(this.#ground.dir, ".sky/api_server/server.log");
    const refreshing = /Running request skypilot-status-refresh-daemon with pid (\d+)/g;
    for (let tries = 0; tries < 1_500; tries++) {
      const pid = [...readFileSync(log, "utf8").matchAll(refreshing)].at(-1)?.[1];
      if (pid !== undefined) {
        process.kill(Number(pid), "SIGSTOP");
        return;
      }
      await pause(200);
    }
    throw new Error("SkyPilot's server names no process that refreshes clusters: lists cannot be timed without it");
  }

  async fill(rows: number): Promise<void> {
    const script = join(import.meta.dirname, "skypilot_fill.py");
    const ran = await run(this.#program("python"), [script, String(rows)], {
      cwd: this.#ground.dir,
      env: this.#env,
      limitMs: 900_000,
    });
    if (ran.code !== 0) throw new Error(`filling SkyPilot: ${ran.out.slice(-1_500)}`);
  }
}

const healthy = async (): Promise<boolean> => {
  try {
    return (await fetch(`${API}/api/health`)).ok;
  } catch {
    return false;
  }
};
