// Scripts that work against their supervisor, their log and their owner's secrets, under the real control plane.

import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pause, random, seedOf, until } from "../process/harness.ts";
import { Place, type Served } from "./harness.ts";

const CANARY = { hub: "canary-hub-9f31c2aa", referred: "canary-ref-77b0e4d1", rents: "canary-rent-5c20ff98" };
const place = new Place();
let served: Served;

beforeAll(async () => {
  served = await place.serve({
    env: { HUB_TOKEN: CANARY.hub, ELSEWHERE: CANARY.referred, PODHOST_API_KEY: CANARY.rents },
  });
});
afterAll(() => place.close());

const run = async (name: string, script: string, spec: Record<string, unknown> = {}): Promise<string> => {
  place.file(`${name}.py`, script);
  return served.submit({ entrypoint: `${name}.py`, ...spec });
};

describe("processes", () => {
  const DAEMON = `
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", "trap '' TERM; exec 9>&1; while :; do sleep 0.2; done"], {})
    os._exit(0)
time.sleep(0.2); print("done", flush=True)`;
  const LATE = `
import os, time
if os.fork() == 0:
    os.setsid()
    while True: os.write(1, b"late\\n"); time.sleep(0.05)`;
  it.each([
    ["a daemon without environment that ignores TERM", DAEMON, "succeeded", 0],
    ["a child that goes on printing", LATE, "succeeded", 0],
    ["a closed output", "import os, time\nos.close(1); os.close(2); time.sleep(0.2)", "succeeded", 0],
    ["the runner killed", "import os, time\nos.kill(os.getppid(), 9); time.sleep(60)", "failed", null],
    ["the runner asked to end", "import os, time\nos.kill(os.getppid(), 15); time.sleep(60)", "failed", 143],
  ])("are gone after a script with %s, and the outcome is true", async (what, script, status, code) => {
    const id = await run(what.replaceAll(/\W/g, "_"), script);
    expect(await served.ended(id)).toMatchObject({ status, exit_code: code });
    expect(place.processes()).toEqual([]);
  });

  it("are all gone when a script that removes its own run directory is called lost", async () => {
    const script = `
import os, shutil, time
print("up", flush=True)
shutil.rmtree(os.path.dirname(os.environ["SVC_CHECKPOINT_DIR"]), ignore_errors=True)
print("removed", flush=True); time.sleep(600)`;
    const id = await run("removes", script);
    expect(await served.ended(id)).toMatchObject({ status: "failed", error: { code: "run_lost" } });
    expect(place.processes()).toEqual([]);
  });

  it.each([["status.json"], ["spool.idx"], ["spool/*"], ["samples.jsonl", "acked"], ["spec.json", "stop"]])(
    "of a script that puts pipes in place of %s is not blocked by them and can be ended",
    async (...names) => {
      const script = `
import glob, os, time
print("up", flush=True); time.sleep(0.5)
os.chdir(os.path.dirname(os.environ["SVC_CHECKPOINT_DIR"]))
for pattern in ${JSON.stringify(names)}:
    for name in glob.glob(pattern) or [pattern]:
        if os.path.exists(name): os.unlink(name)
        os.mkfifo(name)
open(os.environ["PIPED"], "w").close(); time.sleep(600)`;
      const piped = join(place.root, `piped-${names.join("-").replaceAll(/\W/g, "_")}`);
      const id = await run("pipes", script, { env: { PIPED: piped } });
      await until(() => existsSync(piped), "the pipes are there");
      // A process has four threads for files. If each poll of a run used one of them permanently, a third run would no longer
      // end.
      for (let n = 0; n < 3; n++) {
        const other = await run("beside", "print('beside')");
        expect(await served.ended(other)).toMatchObject({ status: "succeeded" });
      }
      // A run without a status counts as lost after some time, like one that has removed its folder. Any other run
      // needs the kill to end.
      const isLost = names[0] === "status.json";
      if (!isLost) await served.post(`/jobs/${id}/kill`, {});
      expect((await served.ended(id)).error?.code).toBe(isLost ? "run_lost" : "cancelled_by_user");
      expect(place.processes()).toEqual([]);
    },
  );

  it("end when a script damages its status and kills its runner, and its log and checkpoint remain", async () => {
    const script = `
import os, signal, sys, time
open(os.environ["SVC_CHECKPOINT_DIR"] + "/one.bin", "wb").write(b"x" * 1000)
print("up", flush=True)
while not os.path.exists(os.environ["GO"]): time.sleep(0.02)
open(os.path.dirname(os.environ["SVC_CHECKPOINT_DIR"]) + "/status.json", "w").write('{"phase": "runn')
open(os.environ["DONE"], "w").close()
os.kill(os.getppid(), 9)
time.sleep(600)`;
    const go = join(place.root, "go");
    const done = join(place.root, "done");
    const lost = await run("damages", script, { env: { GO: go, DONE: `${done}-lost` } });
    const killed = await run("damages_killed", script, { env: { GO: go, DONE: done } });
    for (const id of [lost, killed]) await until(() => place.log(id).toString() === "up\n", "it is up");
    writeFileSync(go, "");
    await until(() => existsSync(done), "its status is damaged");
    await served.post(`/jobs/${killed}/kill`, {});
    expect((await served.ended(killed)).error?.code).toBe("cancelled_by_user");
    expect(await served.ended(lost)).toMatchObject({
      status: "failed",
      error: { code: "run_lost" },
      exit_code: null,
    });
    for (const id of [lost, killed]) {
      expect(place.log(id).toString()).toBe("up\n");
      expect(await served.get(`/jobs/${id}/checkpoints`)).toMatchObject({ files: [{ path: "one.bin", size: 1000 }] });
    }
    expect(place.processes()).toEqual([]);
  }, 150_000);

  it("all end after forty runs were killed at random moments and twice", async () => {
    const next = random(seedOf("kills"));
    place.file("short.sh", "echo a; sleep 0.3; echo b");
    for (let round = 0; round < 4; round++) {
      await Promise.all(
        Array.from({ length: 10 }, async () => {
          const id = await served.submit({ entrypoint: "short.sh", install: next() < 0.5 ? "none" : "sleep 0.1" });
          await pause(next() * 700);
          const kills = await Promise.all([served.post(`/jobs/${id}/kill`, {}), served.post(`/jobs/${id}/kill`, {})]);
          for (const { status } of kills) expect([200, 202]).toContain(status);
          expect(["cancelled", "succeeded"]).toContain((await served.ended(id)).status);
        }),
      );
    }
    expect(place.processes()).toEqual([]);
  });

  it("makes one job of each key in a storm of doubled requests, and ends them all", async () => {
    place.file("long.sh", "sleep 60");
    const submit = (n: number) =>
      fetch(`${served.url}/jobs`, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": `storm-${n >> 1}` },
        body: JSON.stringify({ spec: { entrypoint: "long.sh" } }),
      }).then((answer) => answer.json() as Promise<{ id: string }>);
    const jobs = await Promise.all(Array.from({ length: 40 }, (_, n) => submit(n)));
    expect(new Set(jobs.map((job) => job.id)).size).toBe(20);
    expect((await served.post("/jobs/kill", { all: true })).status).toBe(202);
    for (const { id } of jobs) expect((await served.ended(id)).status).toBe("cancelled");
    expect(place.processes()).toEqual([]);
  });
});

describe("the log stream", () => {
  it("accepts no forged record, and keeps every possible name of a metric", async () => {
    const id = await run(
      "names",
      `
import svc
print('\\x1esvc1:${"0".repeat(24)} {"k":"m","n":0,"s":1,"t":1,"r":0,"m":{"forged":1}}')
svc.log({"__proto__": 5.0, "constructor": 6.0, "toString": 7.0}, step=1)`,
    );
    await served.ended(id);
    const { series } = await served.metrics(id);
    const own = Object.entries(series).filter(([name]) => !name.startsWith("system/"));
    expect(own.map(([name, points]) => [name, points[0]?.value])).toEqual([
      ["__proto__", 5],
      ["constructor", 6],
      ["toString", 7],
    ]);
    expect((await served.text(`/jobs/${id}/logs`)).includes("forged")).toBe(true);
  });

  it("stores ten thousand names of metrics and reports that there were more", async () => {
    const id = await run(
      "flood",
      `import svc\nfor i in range(0, 12000, 4000): svc.log({"m%d" % j: 1.0 for j in range(i, i + 4000)}, step=i)\nsvc.log({"m1": 2.0}, step=99)`,
    );
    expect((await served.ended(id)).status).toBe("succeeded");
    const { series } = await served.metrics(id);
    expect(Object.keys(series)).toHaveLength(10_000);
    expect(series["m1"]?.map((point) => point.value)).toEqual([1, 2]);
    await until(
      () =>
        place.db((db) => db.prepare("SELECT 1 FROM feed WHERE job_id = ? AND type = 'notice'").get(id) !== undefined),
      "the notice",
    );
  });
});

describe("secrets", () => {
  /** Files of the home that contain the text, except the raw spool of a living run. */
  const holding = (text: string): string[] =>
    readdirSync(place.home, { recursive: true, encoding: "utf8" }).filter((name) => {
      const path = join(place.home, name);
      return (
        !name.startsWith("runs/") &&
        statSync(path, { throwIfNoEntry: false })?.isFile() === true &&
        readFileSync(path).includes(text)
      );
    });

  it("are found in no file, answer, argument or message, however the script prints them", async () => {
    place.file(".env", CANARY.referred);
    place.file(".npmrc", CANARY.referred);
    const id = await run(
      "leak",
      `
import os, time, base64, urllib.parse, svc
for v in (os.environ["HUB_TOKEN"], os.environ["GIVEN"]):
    for i in range(1, len(v), 3):
        os.write(1, v[:i].encode()); time.sleep(0.01); os.write(1, (v[i:] + "\\n").encode())
    for i in range(1, len(v), 5):
        os.write(1, v[:i].encode()); svc.log({"a": 1.0}, step=i); os.write(2, v[i:].encode() + b"\\n")
    print(base64.b64encode(("x" + v).encode()).decode(), urllib.parse.quote(v))
    svc.log({v: 1.0, "loss/" + v: 2.0}, step=1)
print("rents:", os.environ.get("PODHOST_API_KEY"), flush=True)
raise SystemExit("died of " + os.environ["GIVEN"])`,
      { env: { GIVEN: "env://ELSEWHERE" }, install: "echo installing with $GIVEN" },
    );
    const seen: string[] = [];
    const all = Object.values(CANARY);
    await until(async () => {
      for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
        try {
          const words = readFileSync(`/proc/${pid}/cmdline`, "latin1");
          if (all.some((secret) => words.includes(secret))) seen.push(words);
        } catch {
          // Gone meanwhile.
        }
      }
      return (await served.job(id)).ended_at !== null;
    }, "the run ends");
    expect(seen).toEqual([]);
    expect((await served.job(id)).status).toBe("failed");
    const answers = await Promise.all(
      ["", "/logs", "/metrics", "/timeline", "/code", "/checkpoints"].map((part) => served.text(`/jobs/${id}${part}`)),
    );
    expect(answers[1]).toContain("installing with ***redacted***");
    expect(answers[1]).toContain("rents: None");
    for (const secret of all) {
      expect(holding(secret)).toEqual([]);
      expect([...answers, served.out, served.err].filter((text) => text.includes(secret))).toEqual([]);
    }
    expect(answers.join("")).not.toContain(Buffer.from(`x${CANARY.hub}`).toString("base64").slice(4, -4));
  });

  it("are not in the record of a run whose own status repeats them", async () => {
    const id = await run(
      "liar",
      `
import json, os, signal, time
path = os.path.join(os.path.dirname(os.environ["SVC_CHECKPOINT_DIR"]), "status.json")
status = json.load(open(path))
status.update(phase="failed", error="exec of " + os.environ["GIVEN"], ended_at_ms=status["started_at_ms"], log_bytes=0)
open(path + ".new", "w").write(json.dumps(status)); os.rename(path + ".new", path)
os.kill(status["runner_pid"], signal.SIGKILL); time.sleep(60)`,
      { env: { GIVEN: "env://ELSEWHERE" } },
    );
    const ended = await served.ended(id);
    expect(ended).toMatchObject({
      error: { code: "run_lost", message: expect.stringContaining("exec of ***redacted***") as string },
    });
    expect(await served.text(`/jobs/${id}/timeline`)).not.toContain(CANARY.referred);
    expect(holding(CANARY.referred)).toEqual([]);
  });
});

describe("a project directory", () => {
  it.for(["/", "/proc", "/sys", "/proc/self/root", "/proc/self"])("may not be %s", async (project_dir, ctx) => {
    if (readdirSync(project_dir).length === 0) ctx.skip(`nothing is mounted at ${project_dir}`);
    const { status, body } = await served.post("/jobs", { spec: { entrypoint: "-m timeit", project_dir } });
    expect([status, body["code"]]).toEqual([400, "project_dir_refused"]);
  });
  it("may not be, contain or be inside the home of svc", async () => {
    const inside = ["logs", "backups", "artifacts"].map((folder) => join(place.home, folder));
    for (const project_dir of [place.home, join(place.home, ".."), join(place.home, "logs", ".."), ...inside]) {
      const { body } = await served.post("/jobs", { spec: { entrypoint: "-m timeit", project_dir } });
      expect(body["code"]).toBe("project_dir_refused");
    }
  });
});
