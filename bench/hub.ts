// A model over loopback: svc's pull, which hashes the received bytes and writes them durably, compared with `curl`
// alone and with `curl` followed by `sha256sum`, the least work for a verified file.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../src/domain/clock.ts";
import { Pulls } from "../src/hub/pulls.ts";
import { withFolder } from "./lib/home.ts";
import { rowOf, type Bench, type Row } from "./lib/measure.ts";

const BYTES = 256 * 1024 * 1024;
const ROUNDS = 5;
const MB = 1_000_000;

async function ours(home: string, url: string): Promise<number> {
  const pulls = new Pulls({
    home,
    mark: "bench",
    clock: systemClock,
    newId: () => `pull${Date.now()}`,
    random: Math.random,
    userAgent: "svc",
    settings: () => ({ url, token: null, cacheDir: null }),
    requireExtra: () => undefined,
    emit: () => Promise.resolve(),
    hint: () => undefined,
  });
  const begun = performance.now();
  await pulls.wait(pulls.pull({ model_id: "bench/model" }).id);
  const seconds = (performance.now() - begun) / 1_000;
  await pulls.stop();
  return BYTES / MB / seconds;
}

function curl(folder: string, address: string, verify: boolean): number {
  const file = join(folder, "model.safetensors");
  const begun = performance.now();
  execFileSync("curl", ["-sS", "-f", "-L", "-o", file, address]);
  if (verify) execFileSync("sha256sum", [file]);
  return BYTES / MB / ((performance.now() - begun) / 1_000);
}

async function measure(): Promise<Row[]> {
  const server = spawn(process.execPath, [join(import.meta.dirname, "lib/hub-double.child.ts"), String(BYTES)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const [line] = (await once(server.stdout, "data")) as [Buffer];
  const { url, commit } = JSON.parse(line.toString("utf8")) as { url: string; commit: string };
  const address = `${url}/bench/model/resolve/${commit}/model.safetensors`;
  const [pulled, alone, verified]: [number[], number[], number[]] = [[], [], []];
  try {
    for (let round = 0; round <= ROUNDS; round++)
      await withFolder(async (folder) => {
        const one = async (make: (at: string) => number | Promise<number>): Promise<number> => {
          const at = join(folder, "one");
          mkdirSync(at);
          const speed = await make(at);
          rmSync(at, { recursive: true });
          return speed;
        };
        const speeds = [
          await one((at) => ours(at, url)),
          await one((at) => curl(at, address, false)),
          await one((at) => curl(at, address, true)),
        ];
        if (round === 0) return; // all three warm up
        [pulled, alone, verified].forEach((list, i) => list.push(speeds[i] ?? 0));
      });
  } finally {
    server.stdin.end();
  }
  return [
    rowOf({
      what: "pull of one file over loopback, verified and durable; against curl alone",
      unit: "MB/s",
      values: pulled,
      baseline: alone,
      target: ">= 0.33x of curl",
      met: (f, b) => f >= b / 3,
    }),
    rowOf({
      what: "the same, against curl and sha256sum",
      unit: "MB/s",
      values: pulled,
      baseline: verified,
      target: ">= 0.8x of both",
      met: (f, b) => f >= 0.8 * b,
    }),
  ];
}

export const hub: Bench = { name: "hub", about: "pulling a model, against curl", measure };
