// kill -9 of the runner while a script logs with its stdout redirected: the stored records are the first of the sent
// ones, without gaps and duplicates, and at most the pipe's content is missing. SVC_TEST_KILLS sets how many runners
// are killed.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "vitest";
import { parseLog } from "../../src/domain/log-stream.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import { ended, newRun, never, python, wholeLog } from "./harness.ts";

const MARK = "0123456789abcdef";
const KILLS = Number(process.env["SVC_TEST_KILLS"] ?? 6);
/** Maximum content of the pipe. */
const PIPE_BYTES = 1 << 20;

/** Counts the sent records after each call, in a file that outlives every process. */
const SCRIPT = `
import os, struct, svc
sent = os.open("sent-" + os.environ["SVC_JOB"], os.O_WRONLY | os.O_CREAT, 0o600)
step = 0
while True:
    svc.log({"loss": step}, step=step)
    step += 1
    os.pwrite(sent, struct.pack("<Q", step), 0)
`;

it(`none of ${KILLS} killed runners stores a metric twice or leaves a gap`, { timeout: 600_000 }, async () => {
  const lost: number[] = [];
  for (let n = 0; n < KILLS; n++) {
    const run = newRun([python, "-c", `import os\nos.dup2(os.open(os.devnull, os.O_WRONLY), 1)\n${SCRIPT}`]);
    run.spec.env = {
      PYTHONPATH: resolve(import.meta.dirname, "../../python"),
      SVC_METRICS_MARK: MARK,
      SVC_JOB: run.spec.job_id,
    };
    await run.host.start(run.spec, {}, never);
    while ((await run.host.readLog(0, 1 << 16, never)).bytes.length < 5_000) await pause(5);
    // Kills at another moment each time.
    await pause((n * 7) % 50);
    const status = await run.host.status(never);
    process.kill(Number(status?.runner_pid), "SIGKILL");
    const over = await ended(run);
    expect(over.error).toMatch(/the runner that supervised the script was killed/);
    const log = await wholeLog(run, over.log_bytes ?? 0);
    const { records } = parseLog(log, { mark: MARK, redactor: new Redactor([]), final: true });
    const steps = records.flatMap((record) => (record.kind === "metrics" ? [record.step] : []));
    expect(steps).toEqual(steps.map((_, i) => i));
    const sent = Number(readFileSync(join(run.spec.cwd, `sent-${run.spec.job_id}`)).readBigUInt64LE());
    const size = log.length / steps.length;
    expect((sent - steps.length) * size).toBeLessThanOrEqual(PIPE_BYTES + (64 << 10));
    lost.push(sent - steps.length);
  }
  const sorted = lost.toSorted((a, b) => a - b);
  console.log(`lost records by killed runner: median ${sorted[sorted.length >> 1]}, most ${sorted.at(-1)}, all ${sorted.join(" ")}`);
});
