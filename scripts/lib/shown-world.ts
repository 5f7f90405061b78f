// A home for demonstration: past runs of every kind, and a control plane that drives real runs on this computer and on
// simulated machines. Nothing costs money, and no traffic leaves this computer.

import { spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { JobIds } from "../../src/domain/ids.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { openStore, prepareHome } from "../../src/store/database.ts";
import { EngineStore } from "../../src/store/engine-store.ts";
import { engineOf, instantSteps } from "./instant-engine.ts";

const ROOT = join(import.meta.dirname, "../..");
const SVC = join(ROOT, "bin", "svc");
/** Runs that are made at the same time. */
const AT_ONCE = 200;
/** The longest time that a short run of the shown home may take. */
const RUN_MS_MAX = 180_000;
const INSTALLATION = "shownshownshown1";

interface PastKind {
  label: string;
  entrypoint: string;
  provider: RunSpec["provider"];
  gpus: string;
  /** Dollars per hour of one machine. */
  price: number;
  minutes: number;
  exit: number;
}

const PAST: readonly PastKind[] = [
  {
    label: "llama-lora r=16",
    entrypoint: "finetune.py",
    provider: "podhost",
    gpus: "A100:2",
    price: 3.38,
    minutes: 214,
    exit: 0,
  },
  { label: "digits, lr 0.3", entrypoint: "train.py", provider: "local", gpus: "cpu", price: 0, minutes: 4, exit: 0 },
  {
    label: "vit-b16 warm-up",
    entrypoint: "train_vit.py",
    provider: "market",
    gpus: "RTX4090:4",
    price: 1.62,
    minutes: 96,
    exit: 0,
  },
  {
    label: "eval, checkpoint 12000",
    entrypoint: "-m eval.run",
    provider: "market",
    gpus: "A6000:1",
    price: 0.41,
    minutes: 18,
    exit: 0,
  },
  {
    label: "diffusion, batch 256",
    entrypoint: "train.py",
    provider: "podhost",
    gpus: "H100:8",
    price: 23.92,
    minutes: 41,
    exit: 1,
  },
  { label: "tokenizer", entrypoint: "prepare.sh", provider: "local", gpus: "cpu", price: 0, minutes: 7, exit: 0 },
  {
    label: "whisper distil, seed 3",
    entrypoint: "distil.py",
    provider: "cloudvm",
    gpus: "A100:1",
    price: 0,
    minutes: 330,
    exit: 0,
  },
];

/**
 * Writes `count` ended runs into a home: the engine drives them through all steps, then their times are moved into the
 * past.
 */
export async function fillPast(home: string, count: number): Promise<void> {
  prepareHome(home);
  const store = new EngineStore(await openStore(home, { newInstallationId: INSTALLATION, now: Date.now() }));
  store.db.pragma("synchronous = OFF");
  const kinds = new Map<string, PastKind>();
  const over = new Map<string, () => void>();
  const steps = instantSteps({ exitOf: (id) => kinds.get(id)?.exit ?? 0 });
  const engine = engineOf(store, steps, (id) => over.get(id)?.());
  const gapMs = Math.min(47 * 60_000, (60 * 86_400_000) / count);
  // All of them have ended by now.
  const longestMs = Math.max(...PAST.map(({ minutes }) => minutes)) * 60_000;
  const begin = Date.now() - longestMs - count * gapMs;
  const times: { id: string; kind: PastKind; at: number }[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const i = next++;
      const kind = PAST[(i * 5 + Math.floor(i / 7)) % PAST.length] as PastKind;
      const at = begin + i * gapMs;
      const id = new JobIds(() => at).next();
      kinds.set(id, kind);
      times.push({ id, kind, at });
      const ended = new Promise<void>((resolve) => over.set(id, resolve));
      await engine.create(pastJob(id, i, kind));
      await ended;
      over.delete(id);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  await engine.stop();
  dateBack(store, times);
  store.db.pragma("synchronous = FULL");
  store.db.close();
}

function pastJob(id: string, i: number, kind: PastKind): Parameters<Engine["create"]>[0] {
  const { entrypoint, provider, gpus } = kind;
  return {
    id,
    input: { nodes: 1, max_runtime_ms: null },
    row: {
      label: `${kind.label} #${i + 1}`,
      provider,
      gpus,
      nodes: 1,
      spec: JSON.stringify(RunSpec.parse({ entrypoint, provider, gpus, project_dir: "/home/me/project" })),
      code_snapshot: null,
      left_out: null,
      idem_key: null,
      idem_hash: null,
    },
  };
}

function dateBack(store: EngineStore, times: readonly { id: string; kind: PastKind; at: number }[]): void {
  const job = store.db.prepare("UPDATE job SET created_at = ?, started_at = ?, ended_at = ? WHERE id = ?");
  const machine = store.db.prepare(
    "INSERT INTO machine (name, job_id, node, ordinal, provider, state, resource_id, price_micro, created_at, horizon_at, held_at, empty_looks, released_at, proof) " +
      "VALUES (?, ?, 0, 1, ?, 'released', 'past', ?, ?, ?, ?, 0, ?, 'the provider says that it does not exist')",
  );
  // The script's own time is not waste: the costs read it from the journal.
  const journal = store.db.prepare(
    "UPDATE journal SET at = CASE WHEN seq <= (SELECT min(seq) FROM journal AS begun WHERE begun.job_id = journal.job_id " +
      "AND begun.type = 'launch.done') THEN ? ELSE ? END WHERE job_id = ?",
  );
  const placement = store.db.prepare("UPDATE placement SET opened_at = ?, closed_at = ? WHERE job_id = ?");
  store.db.transaction(() => {
    for (const { id, kind, at } of times) {
      const end = at + kind.minutes * 60_000;
      const began = at + 90_000;
      job.run(at, began, end, id);
      journal.run(began, end, id);
      placement.run(at, end, id);
      const priced = kind.provider === "cloudvm" ? null : Math.round(kind.price * 1e6);
      machine.run(`svc-past-${id}-0-1`, id, kind.provider, priced, at, at, at + 20_000, end);
    }
  })();
}

export interface Started {
  child: ChildProcess;
  /** The object that the program printed. */
  said: Record<string, unknown>;
}

/** Starts a program that prints one JSON object when it is ready. Throws an error with its output if it ends before. */
function started(args: string[], env: NodeJS.ProcessEnv, cwd: string): Promise<Started> {
  const child = spawn(SVC, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  return new Promise((resolve, reject) => {
    let [out, err] = ["", ""];
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err = (err + text).slice(-4_000)));
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out += text;
      try {
        resolve({ child, said: JSON.parse(out) as Record<string, unknown> });
      } catch {
        // the JSON has not arrived completely yet
      }
    });
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`svc ${args[0]} ended with ${code}: ${err}`)));
  });
}

const ended = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    child.removeAllListeners("exit").once("exit", () => resolve());
    child.kill("SIGINT");
  });

/** Trains until it is stopped, with a curve, a progress bar, and checkpoints. */
const BUSY = `
import json, math, os, random, sys, time
import svc
random.seed(7)
loss = 2.6
for step in range(1, 100000):
    loss = 0.18 + (loss - 0.18) * 0.9985 + random.gauss(0, 0.012)
    lr = 3e-4 * 0.5 * (1 + math.cos(math.pi * min(1, step / 4000)))
    svc.log({"train/loss": loss, "train/accuracy": 1 - loss / 3, "optim/lr": lr, "optim/grad_norm": abs(random.gauss(1, .2))}, step=step)
    if step % 10 == 0:
        print(f"step {step:6d}  \\x1b[36mloss {loss:.4f}\\x1b[0m  lr {lr:.2e}", flush=True)
    if step % 400 == 0:
        folder = os.path.join(svc.checkpoint_dir(), f"step-{step:06d}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "model.bin"), "wb") as file:
            file.write(random.randbytes(40_000))
    time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0.02)
`;
/** A short training run whose validation loss is lowest in the middle, with a checkpoint at every hundredth step. */
const SWEEP = `
import os, sys
import svc
lr = float(sys.argv[2])
for step in range(1, 401):
    best = 0.4 + lr
    svc.log({"train/loss": 2.4 / (1 + step * lr / 10), "val/loss": 0.21 + 0.1 * lr + (step / 400 - best) ** 2}, step=step)
    if step % 100 == 0:
        name = f"checkpoint-{step}"
        os.makedirs(os.path.join(svc.checkpoint_dir(), name), exist_ok=True)
        with open(os.path.join(svc.checkpoint_dir(), name, "model.bin"), "wb") as file:
            file.write(os.urandom(2_000_000))
        svc.checkpoint(name, step=step)
        print(f"step {step:4d}  saved {name}", flush=True)
`;
const FAILING = `
import svc
for step in range(30):
    svc.log({"train/loss": 3 / (step + 1)}, step=step)
    print("batch", step)
raise RuntimeError("CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 79.15 GiB total; 1.12 GiB free)")
`;

export interface ShownWorld {
  url: string;
  /** Ids by name: digits, busy, failed, rented; sweep1 to sweep3, which have ended, and resumed, which continues sweep2; refused. */
  runs: Record<string, string>;
  close(): Promise<void>;
}

async function hasEnded(url: string, id: string): Promise<void> {
  for (const end = Date.now() + RUN_MS_MAX; Date.now() < end;) {
    const { ended_at: endedAt } = (await (await fetch(`${url}/jobs/${id}`)).json()) as { ended_at: string | null };
    if (endedAt !== null) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error(`The run ${id} has not ended.`);
}

/**
 * Starts everything. The home contains `past` runs; `rented`: with simulated providers, which need root on Linux to be
 * complete.
 */
export async function openShownWorld({ past, rented }: { past: number; rented: boolean }): Promise<ShownWorld> {
  const folder = mkdtempSync(join(tmpdir(), "svc-shown-"));
  const project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(project, "train.py"), BUSY);
  writeFileSync(join(project, "broken.py"), FAILING);
  writeFileSync(join(project, "sweep.py"), SWEEP);
  const sim = rented ? await started(["sim", "podhost", "market", "--json"], process.env, project) : null;
  const simEnv = (sim?.said["env"] ?? {}) as Record<string, string>;
  const home = simEnv["SVC_HOME"] ?? join(folder, "home");
  await fillPast(home, past);
  const serve = await started(
    ["serve", "--port", "0", "--json"],
    { ...process.env, ...simEnv, SVC_HOME: home },
    project,
  );
  const url = String(serve.said["url"]);
  const submit = async (label: string, spec: Record<string, unknown>, tags: string[] = []): Promise<string> => {
    const answer = await fetch(`${url}/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ label, tags, spec }),
    });
    const body = (await answer.json()) as { id: string; detail?: string };
    if (answer.status !== 201) throw new Error(`${label}: ${answer.status} ${body.detail}`);
    return body.id;
  };
  const runs: Record<string, string> = {};
  runs["failed"] = await submit("diffusion, batch 320", { entrypoint: "broken.py" });
  runs["digits"] = await submit("digits, two hidden layers", {
    entrypoint: "train.py",
    project_dir: join(ROOT, "examples", "digits"),
    args: ["--epochs", "12"],
  });
  runs["busy"] = await submit("sweep, seed 7", { entrypoint: "train.py", args: ["0.01"] });
  if (sim) {
    const on = { entrypoint: "train.py", install: "none", price_cap: 30 };
    runs["rented"] = await submit("llama-lora r=32", { ...on, provider: "podhost", gpus: "RTX4090:2" }, ["paper"]);
    runs["refused"] = await submit("vit-b16, cheap", { ...on, provider: "market", gpus: "RTX4090:1", price_cap: 0.01 });
    runs["market"] = await submit("vit-b16, 90 epochs", { ...on, provider: "market", gpus: "RTX4090:1" });
  }
  const rates = ["0.05", "0.1", "0.2"];
  for (const [i, lr] of rates.entries())
    runs[`sweep${i + 1}`] = await submit(
      `sweep, lr ${lr}`,
      { entrypoint: "sweep.py", args: ["--lr", lr] },
      lr === "0.1" ? ["sweep-3", "best"] : ["sweep-3"],
    );
  for (const name of ["sweep1", "sweep2", "sweep3"]) await hasEnded(url, runs[name] ?? "");
  runs["resumed"] = await submit("sweep, lr 0.1", {
    entrypoint: "sweep.py",
    args: ["--lr", "0.1"],
    resume_from: runs["sweep2"],
    resume_checkpoint: "checkpoint-200",
  });
  await hasEnded(url, runs["resumed"]);
  return {
    url,
    runs,
    async close() {
      await ended(serve.child);
      if (sim) await ended(sim.child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
