// Metrics and announcements reach the run's log, whatever their process's stdout is.

import { lstatSync, unlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { parseLog } from "../../src/domain/log-stream.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import type { RunnerSpec } from "../../src/schemas/runner.ts";
import { finish, never, newRun, python, startRun, until, type TestRun } from "./harness.ts";

const MARK = "0123456789abcdef";
const env = { PYTHONPATH: resolve(import.meta.dirname, "../../python"), SVC_METRICS_MARK: MARK, PYTHON: python };
const given = (changes: Partial<RunnerSpec> = {}): Partial<RunnerSpec> => ({ ...changes, env: { ...env, ...changes.env } });
const py = (code: string): string[] => [python, "-u", "-c", code];
const THREE = "import svc\nfor i in range(3): svc.log({'loss': i / 2}, step=i); print('epoch', i)";

/** Text and metrics of a log, as the control plane reads it. */
function read(log: Buffer): { text: string; metrics: [name: string, step: number, value: unknown, rank: number][] } {
  const { text, records } = parseLog(log, { mark: MARK, redactor: new Redactor([]), final: true });
  const metrics = records.flatMap((record) =>
    record.kind !== "metrics"
      ? []
      : record.values.map(([name, value]): [string, number, unknown, number] => [name, record.step, value, record.rank]),
  );
  return { text: text.toString(), metrics };
}

const STORED = [["loss", 0, 0, 0], ["loss", 1, 0.5, 0], ["loss", 2, 1, 0]];

async function outcome(run: TestRun) {
  const { log, status } = await finish(run);
  return { ...read(log), status };
}

describe("metrics of a process whose stdout goes elsewhere", () => {
  it.each([
    ["a file", `"$PYTHON" -c "$THREE" > /dev/null 2>&1`],
    ["a pipe to tee", `"$PYTHON" -c "$THREE" 2>&1 | tee /dev/null > /dev/null`],
    ["nohup in the background", `nohup "$PYTHON" -c "$THREE" > /dev/null 2>&1 & wait`],
    ["a parent that captures it", `"$PYTHON" -c 'import os, subprocess, sys; subprocess.run([sys.executable, "-c", os.environ["THREE"]], capture_output=True)'`],
    ["dup2", `"$PYTHON" -c 'import os; os.dup2(os.open("/dev/null", os.O_WRONLY), 1); exec(os.environ["THREE"])'`],
    ["a closed descriptor", `"$PYTHON" -c "$THREE" >&-`],
    ["a spawned worker that is silenced", `"$PYTHON" -c 'import os, subprocess, sys; subprocess.run([sys.executable, "-c", os.environ["THREE"]], stdout=subprocess.DEVNULL, start_new_session=True)'`],
  ])("are stored once when stdout leads to %s", async (_, script) => {
    const run = await startRun(script, given({ env: { THREE }, stop_grace_seconds: 20 }));
    const { metrics } = await outcome(run);
    expect(metrics).toEqual(STORED);
  });

  it("are stored once, after text that was printed before them, if stdout is that of the run", async () => {
    const run = await startRun(py(THREE), given());
    const { log } = await finish(run);
    const { text, metrics } = read(log);
    expect(metrics).toEqual(STORED);
    expect(text).toBe("epoch 0\nepoch 1\nepoch 2\n");
    expect(log.indexOf("epoch 0")).toBeLessThan(log.indexOf('"s":1,'));
    expect(log.indexOf("epoch 1")).toBeLessThan(log.indexOf('"s":2,'));
  });

  it("are all stored once when many processes write at once, and no line of text is torn by them", async () => {
    const code = `
import multiprocessing, os, svc
def work(rank):
    os.environ["RANK"] = str(rank)
    for i in range(400):
        svc.log({"loss/%d" % rank: i, "x" * 300: 1}, step=i, all_ranks=True)
        os.write(1, (("%d:%d " % (rank, i)) * 40 + "\\n").encode())
for method in ("fork", "spawn"):
    if __name__ == "__main__":
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=work, args=(rank,)) for rank in (range(4) if method == "fork" else range(4, 8))]
        [w.start() for w in workers]; [w.join() for w in workers]
`;
    const run = await startRun(py(code), given());
    const { text, metrics } = await outcome(run);
    const losses = metrics.filter(([name]) => name.startsWith("loss/"));
    expect(losses.length).toBe(8 * 400);
    expect(new Set(losses.map(([name, step]) => `${name} ${step}`)).size).toBe(8 * 400);
    const lines = text.trimEnd().split("\n");
    expect(lines.length).toBe(8 * 400);
    for (const line of lines) expect(new Set(line.trim().split(" ")).size).toBe(1);
  });

  it("do not mix with records that an older package writes to stdout at the same time", async () => {
    const code = `
import os, svc
if os.fork() == 0:
    os.environ.pop("SVC_RECORDS")
    for i in range(2000): svc.log({"old": i, "x" * 400: 1}, step=i)
    os._exit(0)
for i in range(2000): svc.log({"new": i, "x" * 400: 1}, step=i)
os.wait()
`;
    const run = await startRun(py(code), given());
    const { text, metrics } = await outcome(run);
    expect(text).toBe("");
    for (const name of ["old", "new"])
      expect(metrics.filter(([n]) => n === name).map(([, step]) => step).sort((a, b) => a - b)).toEqual([...Array(2000).keys()]);
  });

  it("are stored for a process that outlives its parent", async () => {
    const code = `
import os, signal
parent = os.getpid()
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    os.close(1); os.close(2)
    print("started", file=open(os.environ["SVC_RUN_DIR"] + "/go", "w"))
    while os.getppid() == parent: pass
    import svc
    for i in range(3): svc.log({"loss": i / 2}, step=i)
    os._exit(0)
while not os.path.exists(os.environ["SVC_RUN_DIR"] + "/go"): pass
`;
    const run = await startRun(py(code), given({ stop_grace_seconds: 60 }));
    const { metrics } = await outcome(run);
    expect(metrics).toEqual(STORED);
  });

  it("are stored once for a Node.js script, wherever its stdout leads", async () => {
    const sdk = resolve(import.meta.dirname, "../../sdk/log.ts");
    const code = `import { log } from ${JSON.stringify(sdk)}; for (let i = 0; i < 3; i++) log({ loss: i / 2 }, i);`;
    const script = `"$NODE" --input-type=module -e "$CODE" > /dev/null`;
    const run = await startRun(script, given({ env: { NODE: process.execPath, CODE: code } }));
    const { metrics } = await outcome(run);
    expect(metrics).toEqual(STORED);
  });

  it("use the same channel as announced checkpoints", async () => {
    const code = `import svc\nwith svc.atomic_save("last.txt", step=3, mode="w") as file: file.write("x")`;
    const run = newRun([python, "-c", `import subprocess, sys; subprocess.run([sys.executable, "-c", ${JSON.stringify(code)}], capture_output=True, check=True)`]);
    run.spec.env = { ...env, SVC_CHECKPOINT_DIR: run.spec.checkpoint_dir };
    await run.host.start(run.spec, {}, never);
    const { log } = await finish(run);
    const { records } = parseLog(log, { mark: MARK, redactor: new Redactor([]), final: true });
    expect(records).toMatchObject([{ kind: "checkpoint", step: 3 }]);
  });
});

describe("a pipe for records that the script damages", () => {
  const WAITS = `
import os, sys, time, svc
svc.log({"loss": 0}, step=0)
print("ready", flush=True)
at = os.environ["SVC_RUN_DIR"]
while not os.path.exists(at + "/go"): time.sleep(0.01)
svc.log({"loss": 1}, step=1)
`;

  it.each([
    ["removes", (path: string) => unlinkSync(path)],
    ["replaces by a file", (path: string) => (unlinkSync(path), writeFileSync(path, "mine"))],
    ["truncates", (path: string) => writeFileSync(path, "", { flag: "r+" })],
  ])("loses nothing of a process that has it open when the script %s it, and is there again for others", async (_, damage) => {
    const again = `
while True:
    try:
        if os.stat(at + "/records").st_mode & 0o170000 == 0o010000: break
    except OSError: pass
    time.sleep(0.01)
import subprocess
subprocess.run([sys.executable, "-c", "import svc; svc.log({'loss': 2}, step=2)"], capture_output=True, check=True)
`;
    const run = await startRun(py(WAITS + again), given());
    await until(run, "ready");
    const path = join(run.runDir, "records");
    damage(path);
    writeFileSync(join(run.runDir, "go"), "");
    const { metrics } = await outcome(run);
    expect(metrics.map(([, step]) => step)).toEqual([0, 1, 2]);
    expect(lstatSync(path).isFIFO()).toBe(true);
  });

  it("is optional: a process that finds a file in its place reports it once and uses stdout", async () => {
    const code = `
import os, svc
at = os.environ["SVC_RECORDS"]
os.unlink(at); open(at, "w").close()
for i in range(3): svc.log({"loss": i / 2}, step=i)
`;
    const run = await startRun(py(code), given());
    const { metrics, text } = await outcome(run);
    expect(metrics).toEqual(STORED);
    // No warning appears if the runner has opened the pipe again before the first record.
    expect((text.match(/metrics use stdout/g) ?? []).length).toBeLessThanOrEqual(1);
  });

  it("is opened again when the script closes every descriptor, and no file of the script gets a record", async () => {
    const code = `
import os, svc
svc.log({"loss": 0}, step=0)
os.closerange(3, 1024)
files = [os.open("/tmp/svc-mine-%d" % os.getpid(), os.O_RDWR | os.O_CREAT) for _ in range(20)]
for i in (1, 2): svc.log({"loss": i / 2}, step=i)
print("size", os.fstat(files[0]).st_size)
os.unlink("/tmp/svc-mine-%d" % os.getpid())
`;
    const run = await startRun(py(code), given());
    const { metrics, text } = await outcome(run);
    expect(metrics).toEqual(STORED);
    expect(text).toBe("size 0\n");
  });

  it("shows a malformed record as text", async () => {
    const run = await startRun(`echo "not a record" > "$SVC_RECORDS"; printf half > "$SVC_RECORDS"`, given());
    const { text } = await outcome(run);
    expect(text).toBe("not a record\nhalf");
  });
});

it("A script that sends records faster than the runner reads them loses none", async () => {
  const code = `
import os, svc
os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
for i in range(3000): svc.log({"x" * 400: i}, step=i)
`;
  const run = await startRun(py(code), given({ spool_cap_bytes: 64 << 20 }));
  const { status, metrics } = await outcome(run);
  expect(status.exit_code).toBe(0);
  expect(metrics.length).toBe(3000);
});
