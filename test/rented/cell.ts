// One cell of the fault matrix: a simulated provider with machines that boot, a fault, a control plane that lives or dies at a
// given word of its feed and is started again, and the verdict of the simulator's books.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadSshKey } from "../../src/ssh/keys.ts";
import { scaledClock } from "../sim/providers/clock.ts";
import { makeFaults, MEASURES } from "../sim/providers/faults.ts";
import { makeLedger } from "../sim/providers/ledger.ts";
import type { FaultName, Fleet, SimLedger } from "../sim/providers/parts.ts";
import { startSim, type SimName } from "../sim/providers/start.ts";

const CHILD = fileURLToPath(new URL("control-plane.child.ts", import.meta.url));

/** Lines that the script prints, over about a second and a half. */
const LINES = 300;
const SCRIPT = `import os, time
for i in range(${LINES}):
    print("line %d" % i, flush=True)
    if i == ${LINES / 2}:
        with open(os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "half.bin"), "wb") as f:
            f.write(b"x" * 5000)
    time.sleep(0.005)
`;
/** The dearest machine that simulated markets let for one of these is below it, three times the price of the cheapest above. */
const CAP_USD = 1;
const GPU: Readonly<Record<SimName, string>> = { podhost: "L4", market: "RTX4090", cloudvm: "L4", notebook: "T4" };

/** Words of the feed at which a control plane is killed: before and after whatever changes the world. */
export const DEATHS = [
  "job.created",
  "machine.changed intended",
  "machine.changed held",
  "step.started await_ssh",
  "step.succeeded await_ssh",
  "step.succeeded sync",
  "step.started launch",
  "step.succeeded launch",
  "checkpoint.saved",
  "step.succeeded stream",
  "step.succeeded collect",
  "machine.changed releasing",
] as const;
export type Death = (typeof DEATHS)[number];

export interface Cell {
  provider: SimName;
  fault: FaultName | null;
  dieAt: Death | null;
  /** Machines of the job; 1 unless given. */
  nodes?: number;
}

export interface Verdict {
  cell: Cell;
  /** What is wrong; empty where nothing is. */
  wrong: string[];
  status: string;
  code: string | null;
  ms: number;
}

/** Faults that strike while the run runs, in real milliseconds after the machine does; and those that last. */
const STRIKES_MS: Partial<Record<FaultName, number>> = {
  vanishes: 1_800,
  preempted: 1_800,
  port_swap: 1_500,
  host_key_changes: 1_500,
  disk_full: 1_200,
  freezes: 2_500,
  black_hole: 2_500,
  key_refused_first: 700,
  delete_errors: 1_500,
  listing_lag: 700,
  hang: 500,
};
/** Waits that are the point of the fault are long: for these the clock runs faster. */
const FACTOR: Partial<Record<FaultName, number>> = { boot_never: 120, key_refused: 40, slow_create: 20 };
const FACTOR_USUAL = 20;
const LIMIT_MS = 75_000;

const SUCCEEDED = ["succeeded"];
/** What may become of the job, by the code of its error. Where a fault is not here, the run succeeds in spite of it. */
const OUTCOMES: Partial<Record<FaultName, readonly string[]>> = {
  no_capacity: ["no_offer", "no_quota", "step_timed_out"],
  price_nan: ["no_offer", "price_unknown", "price_cap_exceeded", "step_timed_out"],
  price_null: ["no_offer", "price_unknown", "price_cap_exceeded", "step_timed_out"],
  price_text: ["no_offer", "price_unknown", "price_cap_exceeded", "step_timed_out"],
  price_higher: ["price_cap_exceeded", "no_offer"],
  price_rises: ["succeeded", "price_cap_exceeded"],
  hostile_strings: [
    "succeeded",
    "machine_broken",
    "machine_unfit",
    "step_timed_out",
    "provider_error",
    "ssh_unreachable",
    "no_offer",
    "outcome_unknown",
  ],
  boot_never: ["step_timed_out", "machine_broken"],
  boot_fails: ["machine_broken", "machine_lost"],
  key_refused: ["machine_unfit", "ssh_refused", "step_timed_out"],
  host_key_changes: ["succeeded", "host_key_changed"],
  vanishes: ["machine_lost", "machine_broken"],
  preempted: ["machine_lost", "machine_broken"],
  disk_full: ["succeeded", "disk_full", "run_lost", "script_failed", "runner_failed", "sync_failed"],
};
/** Where nothing can tell that a machine is gone, its owner ends the run. */
const ENDED_BY_HAND: readonly FaultName[] = ["vanishes", "preempted", "key_refused", "boot_never", "boot_fails"];
/** Faults that a provider does not have: without prices, without orders, without an API. */
const WITHOUT: Partial<Record<SimName, readonly FaultName[]>> = {
  cloudvm: ["price_nan", "price_null", "price_text", "price_higher", "price_rises", "offer_taken"],
  notebook: [
    "price_nan",
    "price_null",
    "price_text",
    "price_higher",
    "price_rises",
    "offer_taken",
    "no_capacity",
    "lost_after_create",
    "error_after_create",
    "error_before_create",
    "slow_create",
    "listing_lag",
    "delete_ignored",
    "delete_errors",
    "delete_lost",
    "hang",
    "rate_limited",
    "html_200",
    "cut_json",
    "json_bomb",
    "boot_never",
    "boot_fails",
    "hostile_strings",
  ],
};
export const applies = ({ provider, fault }: Cell): boolean => fault === null || !WITHOUT[provider]?.includes(fault);

/** Runs one cell. The fleet may be shared by cells that run at the same time. */
export async function runCell(cell: Cell, fleet: Fleet): Promise<Verdict> {
  const startedAt = performance.now();
  const dir = mkdtempSync(join(tmpdir(), "svc-cell-"));
  const [home, project] = [join(dir, "home"), join(dir, "project")];
  mkdirSync(home, { mode: 0o700 });
  mkdirSync(project);
  writeFileSync(join(project, "train.py"), SCRIPT);
  const factor = (cell.fault && FACTOR[cell.fault]) ?? FACTOR_USUAL;
  const [ledger, faults, clock] = [makeLedger(), makeFaults(), scaledClock(factor)];
  if (cell.fault) faults.set(cell.fault, measureOf(cell.fault, factor));
  const key = await loadSshKey({ path: null, home });
  const sim = await startSim(cell.provider, {
    fleet,
    ledger,
    faults,
    clock,
    apiKey: "matrix-key-0123456789",
    authorizedKeys: [key.publicKeyLine],
  });
  ledger.made({ id: "foreign-1", name: "somebody-elses-machine", usdPerHour: 9, madeAtMs: clock.now(), foreign: true });
  try {
    const { env, credentials } = sim.settings();
    writeFileSync(join(home, "credentials.json"), JSON.stringify(credentials), { mode: 0o600 });
    const spec = {
      provider: cell.provider,
      gpus: `${GPU[cell.provider]}:1`,
      nodes: cell.nodes ?? 1,
      entrypoint: "train.py",
      project_dir: project,
      ...(cell.provider === "cloudvm" ? {} : { price_cap: CAP_USD }),
    };
    const byHand = cell.provider === "notebook" && cell.fault !== null && ENDED_BY_HAND.includes(cell.fault);
    const orders = { home, factor, spec, killAfterMs: byHand ? 6_000 : null };
    const deadline = Date.now() + LIMIT_MS;
    let told: Told | null = null;
    if (cell.dieAt !== null) told = await controlPlane({ ...orders, dieAt: cell.dieAt }, env, deadline);
    told ??= await controlPlane({ ...orders, dieAt: null }, env, deadline);
    const wrong = told === null ? [`not terminal after ${LIMIT_MS / 1000} s`] : judge(cell, told, byHand);
    const books = judgeBooks(ledger);
    return {
      cell,
      wrong: [...wrong, ...books],
      status: told?.record.status ?? "?",
      code: told?.record.error?.code ?? null,
      ms: Math.round(performance.now() - startedAt),
    };
  } finally {
    await sim.close();
    for (const machine of fleet.machines())
      if (ledger.all().some((line) => machine.name.includes(line.id))) await machine.destroy();
    rmSync(dir, { recursive: true, force: true });
  }
}

const measureOf = (fault: FaultName, factor: number): number => {
  const real = STRIKES_MS[fault];
  return real === undefined ? MEASURES[fault].usual : real * factor;
};

interface Told {
  record: { status: string; error: { code: string; message: string } | null; cost_usd: number };
  log: string;
  checkpoints: string[];
  replayed: { ok: boolean }[];
  owed: unknown[];
}

/** What the control plane said at its end; null when it was killed, or did not end in time. */
function controlPlane(orders: object, env: Record<string, string>, deadline: number): Promise<Told | null> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [CHILD, JSON.stringify(orders)], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [out, err] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => { err += text; if (process.env.SVC_TEST_TRACE) process.stderr.write(text); });
    const timer = setTimeout(() => child.kill("SIGKILL"), Math.max(0, deadline - Date.now()));
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      if (signal === "SIGKILL") resolve(null);
      else if (code !== 0) reject(new Error(`the control plane ended with ${code}: ${err.slice(-2_000)}`));
      else resolve(JSON.parse(out) as Told);
    });
  });
}

function judge(cell: Cell, told: Told, byHand: boolean): string[] {
  const wrong: string[] = [];
  const { status, error } = told.record;
  const allowed = byHand ? ["cancelled_by_user"] : ((cell.fault && OUTCOMES[cell.fault]) ?? SUCCEEDED);
  const became = error?.code ?? status;
  if (!allowed.includes(became)) wrong.push(`${became}: ${error?.message ?? ""}`);
  if (told.owed.length > 0) wrong.push("the ledger still owes a machine");
  if (told.replayed.some(({ ok }) => !ok)) wrong.push("a journal differs from its snapshot");
  for (const node of Array.from({ length: cell.nodes ?? 1 }, (_, k) => k)) {
    const tag = cell.nodes === undefined ? "" : `[node${node}] `;
    const lines = told.log.split("\n").filter((line) => line.startsWith(`${tag}line `));
    const whole = status === "succeeded" ? LINES : lines.length;
    const expected = Array.from({ length: whole }, (_, i) => `${tag}line ${i}`);
    // The last line of a run that was cut off may be half a line.
    const counted = status === "succeeded" ? lines : lines.slice(0, -1);
    if (counted.join("\n") !== expected.slice(0, status === "succeeded" ? whole : counted.length).join("\n"))
      wrong.push(`node ${node}: ${lines.length} lines, not 0 to ${whole - 1} in order`);
  }
  if (status === "succeeded" && !told.checkpoints.includes("half.bin")) wrong.push("the checkpoint did not come home");
  return wrong;
}

function judgeBooks(ledger: SimLedger): string[] {
  const wrong: string[] = [];
  const lines = ledger.all();
  for (const line of ledger.alive()) wrong.push(`${line.name} still costs money`);
  for (const line of lines) {
    if (line.foreign && line.endedAtMs !== null) wrong.push(`${line.name}, which is not ours, was ended`);
    const most = ledger.mostAtOnce(line.name.slice(0, line.name.lastIndexOf("-")));
    if (!line.foreign && most > 1) wrong.push(`${most} machines at once for one node`);
  }
  return wrong;
}
