// A control plane whose clock runs faster, as a process that can be killed. `SVC_WORLD` holds its instructions; it
// reports every boundary that it passes to its world, and kills itself, as by `kill -9`, at the requested one.

import { openControlPlane } from "../../src/app/app.ts";
import { SubmitBody } from "../../src/schemas/spec.ts";
import { fasterClock } from "./faster-clock.ts";
import { ENDED, type Told, type WorldOrder } from "./words.ts";

// The world that started this process wrote these instructions.
const order = JSON.parse(process.env["SVC_WORLD"] ?? "{}") as WorldOrder;
const tell = (told: Told): void => void process.send?.(told);

const cp = await openControlPlane({
  home: order.home,
  clock: fasterClock(order.startMs, order.factor),
  log: (line) => console.error(line),
});

function passed(name: string, data: Record<string, unknown>): void {
  if (name === order.kill) process.kill(process.pid, "SIGKILL");
  tell({ is: "event", name, data });
}
cp.subscribe((event) => {
  if (event.type === "log.advanced") return passed("log", {});
  if (!("data" in event)) return;
  const { type, data } = event;
  const word = (name: string): string => (typeof data[name] === "string" ? data[name] : "?");
  if (type.startsWith("step.")) passed(`${word("step")}.${type.slice("step.".length)}`, data);
  else if (type === "machine.changed") passed(`machine.${word("state")}`, data);
  else passed(type, data);
});

process.on("message", (asked: { ask: "reconcile" | "close" }) => {
  if (asked.ask === "reconcile")
    void cp.reconcile({ dryRun: true }).then((report) => tell({ is: "reconciled", report }));
  else void cp.close().then(() => process.exit(0));
});
process.once("disconnect", () => process.exit(0));

try {
  const ids: string[] = [];
  for (const [i, spec] of order.jobs.entries()) {
    const options = { defaultProjectDir: order.project, idempotencyKey: `job ${i}` };
    ids.push((await cp.submit(SubmitBody.parse({ spec }), options)).record.id);
  }
  // One after the other: reading all of them each time costs more than driving them.
  for (const id of ids)
    while (!ENDED.has(cp.reads.job(id)?.status ?? "")) await new Promise((resolve) => setTimeout(resolve, 20));
  tell({
    is: "over",
    records: ids.map((id) => cp.reads.job(id)).filter((record) => record !== null),
    logs: ids.map((id) => cp.reads.readLog(id, 0, cp.reads.logBytes(id)).toString("utf8")),
    checkpoints: ids.map((id) => cp.reads.checkpoints(id).map(({ path }) => path)),
    placements: ids.map((id) => cp.reads.placements(id).placements),
  });
} catch (error) {
  tell({ is: "refused", why: error instanceof Error ? error.message : String(error) });
}
