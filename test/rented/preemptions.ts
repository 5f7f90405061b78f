// Many preemptions of one job, drawn from a seed, and the checks at its end: each checkpoint has the bytes of a run that nothing
// disturbed. A test does a few, `npm run campaign -- --only preemptions` many.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { numbersFrom } from "../sim/providers/numbers.ts";
import { partsOf, wrongEnd, wrongLog, wrongMachines } from "./placed.ts";
import { World, type ProviderCase } from "./world.ts";

const PYTHON = join(import.meta.dirname, "../../python");
/** Lines between two checkpoints. */
const EVERY = 10;
/** Lines for each preemption, so that the job has not ended before the last one. */
const LINES_EACH = 100;
const SECONDS_EACH = 2;
/** Lower than the greatest `retry.max`: a machine that is taken while it boots counts as one that did not boot. */
const EACH_MAX = 18;

/**
 * Fits a line by stochastic gradient descent: its numbers depend on all lines before. It draws from a generator whose state is part of
 * the checkpoint, and it refuses a checkpoint whose digest does not fit.
 */
const SCRIPT = `import hashlib, json, os, random, sys, time
import svc
lines, seconds = int(sys.argv[1]), float(sys.argv[2])
folder, resume = os.environ["SVC_CHECKPOINT_DIR"], os.environ.get("SVC_RESUME_FROM")
begin, weights, draw = 0, [0.0] * 64, random.Random(7)
if resume:
    with open(resume) as f:
        digest, text = f.read().split("\\n", 1)
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        sys.exit("torn: " + resume)
    begin, weights, state = json.loads(text)
    draw.setstate((state[0], tuple(state[1]), state[2]))
print("begin %d of placement %s" % (begin, os.environ.get("SVC_PLACEMENT")), flush=True)
for i in range(begin + 1, lines + 1):
    x = [draw.gauss(0, 1) for _ in weights]
    error = sum(a * b for a, b in zip(weights, x)) - sum(x[::2])
    weights = [w - 0.01 * error * a for w, a in zip(weights, x)]
    print("line %d" % i, flush=True)
    if i % ${EVERY} == 0:
        text = json.dumps([i, weights, draw.getstate()])
        path = os.path.join(folder, "step_%06d" % i)
        with open(path + ".tmp", "w") as f:
            f.write(hashlib.sha256(text.encode()).hexdigest() + "\\n" + text)
        os.rename(path + ".tmp", path)
        svc.checkpoint(path, step=i)
    time.sleep(seconds / lines)
`;

const PROVIDERS: readonly ProviderCase[] = ["podhost", "market", "cloudvm"];
/**
 * Boundaries before the script begins. A machine is taken there at most once for each checkpoint, so that the run makes
 * progress. They are early enough that a notice of 30 s ends before the script has begun.
 */
const EARLY = ["machine.held", "await_ssh.started"] as const;

export interface PreemptionResult {
  preempted: number;
  /** Lines that a later placement had to print again, for each preemption of a running script. */
  lost: number[];
  wrong: string[];
  /** The world's folder, if something was wrong. */
  dir: string | null;
}

/** Takes `count` machines of one job, one after the other. */
export async function preemptions(seed: number, count: number): Promise<PreemptionResult> {
  if (count > EACH_MAX) throw new Error(`one job is preempted ${EACH_MAX} times at most`);
  const draw = numbersFrom(seed);
  const provider = PROVIDERS[Math.floor(draw() * PROVIDERS.length)] ?? "podhost";
  const lines = LINES_EACH * (count + 1);
  const seconds = SECONDS_EACH * (count + 1);
  const spec = {
    retry: { max: 20, on: ["machine_unfit", "boot_failed", "machine_lost", "preempted"] },
    max_preemptions: 1_000,
  };
  const world = await World.start({ provider, script: SCRIPT, lines, seconds, spec });
  const taken: { newest: number; running: boolean }[] = [];
  let newest = 0;
  /** The boundary at which the present machine is to be taken. */
  let at: string = "checkpoint.saved";
  world.watch((name, data) => {
    if (name === "checkpoint.saved")
      newest = Math.max(newest, Number(/step_(\d+)/.exec(JSON.stringify(data))?.[1] ?? 0));
    if (name !== at || taken.length >= count) return;
    if (name === "checkpoint.saved" && newest <= (taken.findLast(({ running }) => running)?.newest ?? 0)) return;
    const running = at === "checkpoint.saved";
    at = "nothing";
    setTimeout(
      () => {
        taken.push({ newest, running });
        world.faults.set("preempted", 1);
      },
      running ? draw() * 600 : draw() * 50,
    ).unref();
  });
  world.watch((name) => {
    if (name !== "placement.closed") return;
    const early = taken.at(-1)?.running === true && draw() < 0.25;
    at = early ? (EARLY[Math.floor(draw() * EARLY.length)] ?? "machine.held") : "checkpoint.saved";
  });
  const wrong: string[] = [];
  const lost: number[] = [];
  try {
    const ending = await world.live(null, 60_000 + count * 40_000);
    wrong.push(...wrongEnd(ending), ...wrongMachines(world));
    const log = ending.logs[0] ?? "";
    wrong.push(...wrongLog(log, { every: EVERY, last: lines }));
    const parts = partsOf(log);
    for (const [n, { begin }] of parts.entries()) {
      const before = parts[n - 1];
      if (before === undefined) continue;
      const last = before.lines.at(-1) ?? before.begin;
      if (begin > last) wrong.push(`part ${n + 1} begins at ${begin}, after the last line ${last} of the one before`);
      lost.push(last - begin);
    }
    // A downloaded checkpoint is never lost again.
    const begins = parts.map(({ begin }) => begin).slice(1);
    for (const { newest: saved, running } of taken)
      if (running && saved > 0 && !begins.some((begin) => begin >= saved))
        wrong.push(`step ${saved} was at home when a machine was taken, and no later part begins there or after it`);
    if (taken.length < count) wrong.push(`only ${taken.length} of ${count} machines were taken`);
    const record = ending.records[0];
    if (record) wrong.push(...wrongBytes(join(world.home, "artifacts", record.id, "checkpoints"), lines));
  } catch (error) {
    wrong.push(error instanceof Error ? error.message : String(error));
  }
  const isRight = wrong.length === 0;
  await world.close({ keep: !isRight });
  return { preempted: taken.length, lost, wrong, dir: isRight ? null : world.dir };
}

/** Compares every downloaded checkpoint with that of a run on this computer that nothing disturbs. */
function wrongBytes(home: string, lines: number): string[] {
  const dir = mkdtempSync(join(tmpdir(), "svc-undisturbed-"));
  try {
    const expected = join(dir, "checkpoints");
    mkdirSync(expected);
    writeFileSync(join(dir, "train.py"), SCRIPT);
    const { SVC_RESUME_FROM: _, ...own } = process.env;
    const { status, stderr } = spawnSync("python3", ["train.py", String(lines), "0"], {
      cwd: dir,
      env: { ...own, SVC_CHECKPOINT_DIR: expected, PYTHONPATH: PYTHON },
      encoding: "utf8",
    });
    if (status !== 0) return [`the undisturbed run failed: ${stderr}`];
    const names = readdirSync(home).filter((name) => /^step_\d+$/.test(name));
    const last = `step_${String(lines).padStart(6, "0")}`;
    return [
      ...(names.includes(last) ? [] : [`${last} is not at home`]),
      ...names
        .filter((name) => !readFileSync(join(home, name)).equals(readFileSync(join(expected, name))))
        .map((name) => `${name} differs from that of an undisturbed run`),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
