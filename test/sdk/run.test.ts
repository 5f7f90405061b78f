// Scripts that use the SDK, as separate processes, with the control plane that the SDK starts for them.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { spawn, spawnSync } from "node:child_process";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isAlive } from "../../sdk/discover.ts";
import { CLI, until, Workplace } from "../cli/serving.ts";

const sdk = JSON.stringify(join(import.meta.dirname, "../../sdk/index.ts"));
let at: Workplace;
const use = (workplace: Workplace): void => {
  at = workplace;
  at.env["SVC_BIN"] = CLI;
  at.file(
    "count.py",
    'import sys, time\nfor i in range(int(sys.argv[1])):\n    print("line %d" % i, flush=True)\n    time.sleep(0.05)\nsys.exit(int(sys.argv[2]))\n',
  );
};
beforeEach(() => use(new Workplace()));
afterEach(() => at.close());

/** A script in the project directory. */
function script(
  body: string,
  options: { detached?: boolean; stdio?: ("pipe" | "ignore")[] } = {},
): {
  child: ReturnType<typeof spawn>;
  out(): string;
  err(): string;
  exited: Promise<number | null>;
} {
  const text = `import { run, wait, stream, job, jobs, kill, reconcile, SvcError } from ${sdk};\n${body}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", text], {
    env: at.env,
    cwd: at.project,
    stdio: ["ignore", "pipe", "pipe"],
    ...options,
  });
  let out = "";
  let err = "";
  child.stdout?.setEncoding("utf8").on("data", (s: string) => (out += s));
  child.stderr?.setEncoding("utf8").on("data", (s: string) => (err += s));
  return {
    child,
    out: () => out,
    err: () => err,
    exited: new Promise((done) => child.once("close", (code) => done(code))),
  };
}
const records = (): { id: string; status: string; exit_code: number | null }[] =>
  JSON.parse(at.svc("jobs", "--json").out).jobs;
const running = (): { pid: number } | null => {
  try {
    return JSON.parse(readFileSync(join(at.home, "control-plane.json"), "utf8"));
  } catch {
    return null;
  }
};
const LONG = 'const r = await run({ task: { entrypoint: "count.py", args: ["9999", "0"] } });';

test("runs, streams every line, waits, and leaves no control plane behind", async () => {
  const s = script(`
    const r = await run({ task: { entrypoint: "count.py", args: ["12", "3"] }, label: "first" });
    const lines = [];
    for await (const line of stream(r.id)) lines.push(line);
    const end = await wait(r.id);
    const whole = await run({ task: { entrypoint: "count.py", args: ["1", "0"] }, wait: true });
    console.log(JSON.stringify({ early: r.status, lines, status: end.status, code: end.exit_code, whole: whole.status, listed: (await jobs()).length, report: (await reconcile({ dryRun: true })).dry_run }));
  `);
  expect(await s.exited, s.err()).toBe(0);
  expect(JSON.parse(s.out())).toEqual({
    early: "provisioning",
    lines: Array.from({ length: 12 }, (_, i) => `line ${i}`),
    status: "failed",
    code: 3,
    whole: "succeeded",
    listed: 2,
    report: true,
  });
  expect(running()).toBeNull();
});

test("a script that ends during a run ends the run gracefully before it exits", async () => {
  at.file(
    "slow.py",
    'import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), sys.exit(0)))\nprint("ready", flush=True)\nwhile True: time.sleep(0.1)\n',
  );
  const s = script(`
    const r = await run({ task: { entrypoint: "slow.py" } });
    for await (const line of stream(r.id)) if (line === "ready") break;
    console.log(r.id);
  `);
  expect(await s.exited, s.err()).toBe(0);
  expect(running()).toBeNull();
  expect(records().map((r) => [r.id, r.status])).toEqual([[s.out().trim(), "interrupted"]]);
});

test("a terminal shows the steps of a run during a wait", () => {
  const body = `import { run } from ${sdk}; await run({ task: { entrypoint: "count.py", args: ["12", "3"] }, wait: true });`;
  const pty = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
  const argv = ["-c", pty, process.execPath, "--input-type=module", "-e", body];
  const env = { ...at.env, TERM: "xterm" };
  const seen = spawnSync("python3", argv, { env, cwd: at.project, encoding: "utf8", timeout: 80_000 });
  expect(seen.status, seen.stdout).toBe(0);
  expect(seen.stdout).toMatch(/\r\x1b\[Ksvc: \w+ running +\d+ s/);
  expect(seen.stdout).toMatch(/\nsvc: \w+ failed after \d+ s, exit code 3: The script ended with exit code 3\..*\r\n/);
});

test("a progress bar appears as it moves, and its line arrives completely", async () => {
  at.file(
    "bar.py",
    `import os, sys, time
print("start", flush=True)
for i in range(10_000):
    sys.stderr.write(f"\\r{i} of many"); sys.stderr.flush(); time.sleep(0.05)
    if os.path.exists("seen"): break
print("\\rdone")`,
  );
  const s = script(`import { writeFileSync } from "node:fs";
const r = await run({ task: { entrypoint: "bar.py" } });
let states = 0; const lines = [];
for await (const line of stream(r.id)) {
  if (line.endsWith("\\r")) { if (++states === 2) writeFileSync("seen", ""); } else lines.push(line);
}
console.log(JSON.stringify({ states, lines: lines.map((l) => l.split("\\r").at(-1)), first: lines[1].includes("0 of many") }));`);
  expect(await s.exited).toBe(0);
  const { states, lines, first } = JSON.parse(s.out()) as { states: number; lines: string[]; first: boolean };
  expect(states).toBeGreaterThanOrEqual(2);
  expect([lines, first]).toEqual([["start", "done"], true]);
});

test("Ctrl-C ends run and machine gracefully, says so, and exits with 130", async () => {
  const s = script(`${LONG} console.log(r.id); await wait(r.id);`);
  await until(() => s.out() !== "", "the run is started");
  s.child.kill("SIGINT");
  expect(await s.exited).toBe(130);
  expect(s.err()).toContain("ending the run");
  expect(s.err()).toContain("svc: everything has ended");
  expect(records()[0]?.status).toBe("interrupted");
});

test("Ctrl-C after the end of a run does not say that it continues, or that it is being ended", async () => {
  use(Workplace.own("its first script must find none"));
  const interrupted = async (key: string, follow: string): Promise<string> => {
    const task = `{ task: { entrypoint: "count.py", args: ["1", "0"] }, idempotency_key: "${key}" }`;
    const s = script(`const r = await run(${task}); ${follow}
console.log(r.id); setTimeout(() => undefined, 600_000);`);
    await until(() => s.out() !== "" || s.child.exitCode !== null, "the run has ended");
    s.child.kill("SIGINT");
    expect(await s.exited, s.err()).toBe(130);
    return s.err();
  };
  const reads = "for await (const line of stream(r.id)) void line;";
  const polls = (last: string) => `while (${last}.ended_at === null) await new Promise((r) => setTimeout(r, 50));`;
  expect(await interrupted("a", reads)).toContain(
    "svc: interrupted; ending the control plane that this program uses. Press",
  );
  await at.serve();
  expect(await interrupted("b", reads)).toBe("");
  // The same key gives the run that has ended.
  expect(await interrupted("b", "")).toBe("");
  expect(await interrupted("c", polls("(await job(r.id))"))).toBe("");
  expect(await interrupted("d", polls("(await jobs())[0]"))).toBe("");
  expect(await interrupted("d", 'await wait("no-such-run").catch(() => undefined);')).toBe("");
});

test("Ctrl-C after the end of a run says nothing of this run where another program uses the control plane", async () => {
  const other = script(`${LONG} console.log(r.id); await wait(r.id);`);
  await until(() => other.out() !== "", "the other program's run is started");
  const s = script(`
    await run({ task: { entrypoint: "count.py", args: ["1", "0"] }, wait: true });
    console.log("ended"); setTimeout(() => undefined, 600_000);`);
  await until(() => s.out() !== "" || s.child.exitCode !== null, "the run has ended");
  s.child.kill("SIGINT");
  expect(await s.exited, s.err()).toBe(130);
  expect(s.err()).toContain("svc: other programs use the control plane, which ends with the last of them.\n");
  other.child.kill("SIGINT");
  expect(await other.exited).toBe(130);
});

test("a wait with a timeout rejects when it is over, and the run continues", async () => {
  const waits = script(`
    ${LONG}
    const why = await wait(r.id, 0.2).catch((e) => e);
    const after = (await job(r.id)).ended_at;
    await kill(r.id);
    console.log(JSON.stringify([why.code, why.message, why.exit, after, (await wait(r.id, 600)).status]));
  `);
  expect(await waits.exited, waits.err()).toBe(0);
  const [code, message, exit, after, status] = JSON.parse(waits.out());
  expect([code, exit, after, status]).toEqual(["wait_timeout", 1, null, "cancelled"]);
  expect(message).toMatch(/^Run \w+ is still \w+ after 0\.2 s\.$/);
});

test("A second Ctrl-C in the terminal ends the waiting and not the control plane, which gives the run its time to end", async () => {
  at.file(
    "slow.py",
    `import os, signal, sys, time
def bye(*_):
    open("asked", "w").close()
    while here() and not os.path.exists("go"): time.sleep(0.05)
    sys.exit(0)
def here(): return os.path.exists("ready")
signal.signal(signal.SIGTERM, bye)
open("ready", "w").close()
while here(): time.sleep(0.05)`,
  );
  const isThere = (name: string): boolean => existsSync(join(at.project, name));
  const task = '{ task: { entrypoint: "slow.py" }, stop_grace_seconds: 300, wait: true }';
  // A group of its own, like a command in a terminal: Ctrl-C is a signal to the group.
  const s = script(`await run(${task});`, { detached: true });
  const ctrlC = (): boolean => process.kill(-(s.child.pid ?? 0), "SIGINT");
  await until(() => isThere("ready") || s.child.exitCode !== null, "the run is at work");
  const plane = running()?.pid ?? 0;
  ctrlC();
  await until(() => isThere("asked"), "the run is asked to end");
  ctrlC();
  expect(await s.exited).toBe(130);
  expect(s.err()).toContain("the control plane keeps shutting down by itself");
  at.file("go", "");
  await until(() => !isAlive({ pid: plane }), "the control plane has ended");
  expect(records()[0]?.status).toBe("interrupted");
  expect(running()).toBeNull();
});

test("a program that takes the port of a dead control plane receives no call", async () => {
  await at.close();
  use(Workplace.own("it is killed"));
  const served = await at.serve();
  const asks = script(
    `
    await run({ task: { entrypoint: "count.py", args: ["1", "0"] }, wait: true });
    console.log("ready");
    await new Promise((r) => process.stdin.once("data", r));
    console.log(JSON.stringify((await jobs()).length));
    process.stdin.pause();
  `,
    { stdio: ["pipe", "pipe", "pipe"] },
  );
  await until(() => asks.out().includes("ready"), "a run has ended");
  const { url } = JSON.parse(readFileSync(join(at.home, "control-plane.json"), "utf8"));
  writeFileSync(join(at.home, "token"), "a".repeat(43));
  served.child.kill("SIGKILL");
  await served.exited;
  const received: string[] = [];
  const stranger = createServer((request, response) => {
    received.push(`${request.method} ${request.url} ${request.headers.authorization ?? ""}`);
    response.writeHead(401).end();
  });
  await new Promise<void>((done) => stranger.listen(Number(new URL(url).port), "127.0.0.1", done));
  try {
    asks.child.stdin?.write("go\n");
    expect(await asks.exited, asks.err()).toBe(0);
    expect(received).toEqual([]);
  } finally {
    await new Promise((done) => stranger.close(done));
  }
});

test("a script that is killed takes its control plane down with it, gracefully", async () => {
  const s = script(`${LONG} console.log(r.id); await wait(r.id);`);
  await until(() => s.out() !== "", "the run is started");
  s.child.kill("SIGKILL");
  await s.exited;
  await until(() => !existsSync(join(at.home, "control-plane.json")), "the control plane ended");
  expect(records()[0]?.status).toBe("interrupted");
});

test("A script uses the running control plane, leaves it running, and its runs survive the script", async () => {
  const served = await at.serve();
  const s = script(`${LONG} console.log(r.id);`);
  expect(await s.exited, s.err()).toBe(0);
  const id = s.out().trim();
  await until(async () => (await at.status(served, id)) === "running", "the run goes on");
  const k = script(`await kill(${JSON.stringify(id)}); console.log((await wait(${JSON.stringify(id)})).status);`);
  expect(await k.exited, k.err()).toBe(0);
  expect(k.out().trim()).toBe("cancelled");
  expect(served.child.exitCode).toBeNull();
});

test("several scripts at once share one control plane", async () => {
  const all = [1, 2, 3].map(() =>
    script(
      'const r = await run({ task: { entrypoint: "count.py", args: ["5", "0"] }, wait: true }); console.log(r.status);',
    ),
  );
  const codes = await Promise.all(all.map((s) => s.exited));
  expect(codes, all.map((s) => s.err()).join("\n")).toEqual([0, 0, 0]);
  expect(records()).toHaveLength(3);
  for (const r of records()) expect(r.status).toBe("succeeded");
  expect(running()).toBeNull();
});

test("a control plane runs as long as any of its callers, whichever started it", async () => {
  const first = script(`${LONG} console.log(r.id); await wait(r.id);`);
  await until(() => first.out() !== "", "the first run is started");
  const id = first.out().trim();
  const pid = running()?.pid;
  const second = script(`console.log((await job(${JSON.stringify(id)})).status); await wait(${JSON.stringify(id)});`);
  await until(() => second.out() !== "", "the second script uses the same one");
  first.child.kill("SIGKILL");
  await first.exited;
  const third = script(`console.log((await jobs()).length);`);
  expect(await third.exited, third.err()).toBe(0);
  expect([third.out().trim(), running()?.pid]).toEqual(["1", pid]);
  second.child.kill("SIGINT");
  expect(await second.exited).toBe(130);
  expect(second.err()).toContain("svc: everything has ended; no machine");
  expect(running()).toBeNull();
  expect(records().map((r) => r.status)).toEqual(["interrupted"]);
});

test("a wrong parameter is refused by name, and the same key makes one job", async () => {
  const s = script(`
    const told = [];
    for (const bad of [
      { task: { entrypoint: "count.py" }, gpu: "x" }, { task: { entrypoint: "nowhere.py" } }, { task: { entrypoint: "count.py", arg: [] } },
      { task: { entrypoint: "count.py" }, price_cap: NaN }, { entrypoint: "count.py" }, { task: { entrypoint: "count.py" }, nodes: 0 },
    ]) await run(bad).then(() => told.push("accepted"), (e) => told.push(e instanceof SvcError && e.hint ? e.code + " " + (e.errors?.[0]?.field ?? "") : String(e)));
    await job("nosuchjob").catch((e) => told.push(e.code));
    const same = { task: { entrypoint: "count.py", args: ["1", "0"] }, idempotency_key: "k1" };
    const [a, b] = await Promise.all([run(same), run(same)]);
    told.push(a.id === b.id);
    console.log(JSON.stringify(told));
  `);
  expect(await s.exited, s.err()).toBe(0);
  const told = JSON.parse(s.out()) as unknown[];
  expect(told[0]).toMatch(/^invalid_request .*gpu/);
  expect(told[1]).toMatch(/^entrypoint_not_found/);
  expect(told[2]).toBe("invalid_request task.arg");
  expect(told[3]).toBe("invalid_request price_cap");
  expect(told[4]).toMatch(/^invalid_request task/);
  expect(told[5]).toMatch(/^invalid_request .*nodes/);
  expect(told.slice(6)).toEqual(["job_not_found", true]);
  expect(records()).toHaveLength(1);
});
