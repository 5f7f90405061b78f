// A control plane whose clock runs faster, with one job. Told by its one argument (JSON); says what became of the job on stdout.
// It can be told to die by its own hand, as `kill -9` does it, when the feed says a certain thing.

import { openControlPlane } from "../../src/app.ts";
import { systemClock, type Clock } from "../../src/domain/clock.ts";
import { SubmitBody } from "../../src/schemas/spec.ts";

interface Orders {
  home: string;
  /** Seconds of this control plane that pass in one. */
  factor: number;
  spec: Record<string, unknown>;
  /** `TYPE` or `TYPE WORD` of an event of the feed: `step.succeeded sync`, `machine.changed held`. */
  dieAt: string | null;
  /** Kills the job after so many real milliseconds; null leaves it alone. */
  killAfterMs: number | null;
}

const orders = JSON.parse(process.argv[2] ?? "{}") as Orders;

function fasterClock(factor: number): Clock {
  const startedAt = Date.now();
  return {
    now: () => Math.round(startedAt + (Date.now() - startedAt) * factor),
    monotonic: () => performance.now() * factor,
    setTimer: (ms, fn) => systemClock.setTimer(ms / factor, fn),
  };
}

const cp = await openControlPlane({
  home: orders.home,
  clock: fasterClock(orders.factor),
  log: (line) => console.error(line),
});
const bornAt = performance.now();
cp.subscribe((event) => {
  if (process.env.SVC_TEST_TRACE) console.error(Math.round(performance.now() - bornAt), event.type, "data" in event ? JSON.stringify(event.data).slice(0, 160) : "");
  if (orders.dieAt === null) return;
  const [type, word] = orders.dieAt.split(" ");
  const data: Record<string, unknown> = "data" in event ? event.data : {};
  if (event.type === type && (word === undefined || Object.values(data).includes(word)))
    process.kill(process.pid, "SIGKILL");
});
const { record } = await cp.submit(SubmitBody.parse({ spec: orders.spec }), {
  defaultProjectDir: "/",
  idempotencyKey: "the one job of this cell",
});
const ended = (): boolean =>
  ["succeeded", "failed", "cancelled", "timed_out", "interrupted"].includes(cp.reads.job(record.id)?.status ?? "");
if (orders.killAfterMs !== null)
  setTimeout(() => void cp.kill(record.id).catch(() => undefined), orders.killAfterMs).unref();
while (!ended()) await new Promise((resolve) => setTimeout(resolve, 20));
const { replayed } = await cp.reconcile({ dryRun: true });
const log = cp.reads.readLog(record.id, 0, 4_000_000).toString("utf8");
const checkpoints = cp.reads.checkpoints(record.id).map((file) => file.path);
console.log(JSON.stringify({ record: cp.reads.job(record.id), log, checkpoints, replayed, owed: cp.reads.machines() }));
await cp.close();
process.exit(0);
