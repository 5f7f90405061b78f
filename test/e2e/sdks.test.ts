// Both SDKs in a user's script: who starts the control plane, who ends it, and how the runs end.

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { gathered, type Gathered } from "../gathered.ts";
import { Place, pause, ROOT, until } from "../process/harness.ts";
import { SDKS } from "../program.ts";

type Script = { child: ChildProcess } & Gathered;

const SDK = JSON.stringify(join(ROOT, "sdk/index.ts"));
const LANGUAGES = {
  python: {
    argv: (body: string) => ["python3", "-c", `import svc, sys\n${body}`],
    start: 'j = svc.run(task={"entrypoint": "wait.py"})\nprint(j.id, flush=True)\n',
    startAndWait: 'print("calling", flush=True)\nsvc.run(task=svc.Task(entrypoint="wait.py"), wait=True)\n',
    rest: "svc.wait(j.id)\n",
    whole: [
      'j = svc.run(task=svc.Task(entrypoint="count.py", args=["a b"]), label="e2e")',
      "lines = list(svc.stream(j.id))",
      "w = svc.wait(j.id)",
      'print("|".join(lines + [w.status, str(w.exit_code), str(w.cost_usd), w.label, svc.jobs()[0].id == j.id and "listed"]))',
    ].join("\n"),
    look: (id: string) =>
      [
        'print(*[j.id for j in svc.jobs(status="running", provider="local")])',
        `j = svc.job("${id}"); print(j.status, j.id)`,
        "print(str(svc.reconcile(dry_run=True).dry_run).lower())",
        'try:\n    svc.job("nobody")\nexcept svc.JobNotFound as e:\n    print(e.code)',
      ].join("\n"),
    kill: (id: string) => `print(svc.kill("${id}").status)`,
    remove: (id: string) =>
      `try:\n    print("freed", svc.remove("${id}") > 0)\nexcept svc.SvcError as e:\n    print(e.code, bool(e.hint))`,
    removeCheckpoint: (id: string) =>
      `try:\n    print(svc.remove_checkpoints("${id}", ["500"]).freed_bytes)\nexcept svc.SvcError as e:\n    print(e.code, bool(e.hint))`,
    refused:
      'try:\n    svc.run(task={"entrypoint": "none.py"})\nexcept svc.SvcError as e:\n    print(e.code, bool(e.hint), e.errors[0][0])',
  },
  typescript: {
    argv: (body: string) => [
      process.execPath,
      "--input-type=module",
      "-e",
      `import { run, wait, stream, job, jobs, kill, remove, removeCheckpoints, reconcile, SvcError } from ${SDK};\n${body}`,
    ],
    start: 'const j = await run({ task: { entrypoint: "wait.py" } });\nconsole.log(j.id);\n',
    startAndWait: 'console.log("calling");\nawait run({ task: { entrypoint: "wait.py" }, wait: true });\n',
    rest: "await wait(j.id);\n",
    whole: [
      'const j = await run({ task: { entrypoint: "count.py", args: ["a b"] }, label: "e2e" });',
      "const lines = [];",
      "for await (const line of stream(j.id)) lines.push(line);",
      "const w = await wait(j.id);",
      'console.log([...lines, w.status, w.exit_code, w.cost_usd, w.label, (await jobs())[0].id === j.id && "listed"].join("|"));',
    ].join("\n"),
    look: (id: string) =>
      [
        'console.log(...(await jobs({ status: "running", provider: "local" })).map((j) => j.id));',
        `const j = await job("${id}"); console.log(j.status, j.id);`,
        "console.log((await reconcile({ dryRun: true })).dry_run);",
        'await job("nobody").catch((e) => console.log(e.code));',
      ].join("\n"),
    kill: (id: string) => `console.log((await kill("${id}")).status)`,
    remove: (id: string) =>
      `try { console.log("freed", (await remove("${id}")).freed_bytes > 0) } catch (e) { console.log(e.code, e instanceof SvcError && e.hint !== "") }`,
    removeCheckpoint: (id: string) =>
      `try { console.log((await removeCheckpoints("${id}", ["500"])).freed_bytes) } catch (e) { console.log(e.code, e.hint !== "") }`,
    refused:
      'try { await run({ task: { entrypoint: "none.py" } }) } catch (e) { console.log(e.code, e instanceof SvcError && e.hint !== "", e.errors[0].field) }',
  },
};

let place: Place;
let scripts: Script[];
beforeEach(() => {
  place = Place.own("who starts it and who ends it is tested");
  scripts = [];
  place.file("count.py", "import sys\nfor i in range(3):\n    print(i, sys.argv[1], flush=True)\nsys.exit(4)\n");
  place.file("wait.py", 'import time\nprint("at work", flush=True)\ntime.sleep(600)\n');
});
afterEach(async () => {
  for (const s of scripts) if (s.child.exitCode === null && s.child.signalCode === null) s.child.kill("SIGKILL");
  await until(() => !existsSync(join(place.home, "control-plane.json")) || place.processes().length === 0, "all ended");
  await place.close();
});

function script([command, ...args]: string[]): Script {
  const env = { ...place.env, ...SDKS };
  const child = spawn(command as string, args, { cwd: place.project, env, stdio: ["ignore", "pipe", "pipe"] });
  const started = { child, ...gathered(child) };
  scripts.push(started);
  return started;
}
const statuses = (): string[] => {
  const listed = JSON.parse(place.svc("jobs", "--json").out) as { jobs: { status: string }[] };
  return listed.jobs.map((j) => j.status);
};
const controlPlaneGone = (): Promise<void> =>
  until(() => !existsSync(join(place.home, "control-plane.json")), "the control plane ends", DEADLINE_MS);
const said = (s: Script, text: string): Promise<void> =>
  until(
    () => s.out().includes(text) || s.child.exitCode !== null,
    () => `the script says ${text}: ${s.err()}`,
  );
const atWork = (): Promise<void> => until(() => place.scripts().length > 0, "the run is at work");

describe.each(Object.entries(LANGUAGES))("%s", (_, l) => {
  test("starts a control plane, runs, streams, waits, and leaves nothing behind", async () => {
    const s = script(l.argv(l.whole));
    expect(await s.exited, s.err()).toBe(0);
    expect(s.out().trim().replace("|0.0|", "|0|")).toBe("0 a b|1 a b|2 a b|failed|4|0|e2e|listed");
    expect(existsSync(join(place.home, "control-plane.json"))).toBe(false);
    expect(place.processes()).toEqual([]);
  });

  test("`remove` removes an ended run, with and without a control plane, and refuses a live one", async () => {
    const asked = async (id: string, of = l.remove): Promise<string> => {
      const s = script(l.argv(of(id)));
      expect(await s.exited, s.err()).toBe(0);
      return s.out().trim().toLowerCase();
    };
    const served = await place.serve();
    const submit = (entrypoint: string) => served.submit({ entrypoint, args: ["a"], project_dir: place.project });
    const [first, second, live] = [await submit("count.py"), await submit("count.py"), await submit("wait.py")];
    await served.ended(first);
    await served.ended(second);
    expect(await asked(live)).toBe("job_not_removable true");
    expect(await asked(live, l.removeCheckpoint)).toBe("checkpoint_not_removable true");
    expect(await asked(second, l.removeCheckpoint)).toBe("checkpoint_not_found true");
    expect(await asked(first)).toBe("freed true");
    expect(await asked(first)).toBe("job_removed true");
    await served.post(`/jobs/${live}/kill`, {});
    await served.ended(live);
    served.signal("SIGTERM");
    await served.exited;
    // A name of digits stays a name, also by way of the command line, which knows steps.
    expect(await asked(second, l.removeCheckpoint)).toBe("checkpoint_not_found true");
    expect(await asked(second)).toBe("freed true");
    // No control plane is left behind, and the home is otherwise complete.
    expect(existsSync(join(place.home, "control-plane.json"))).toBe(false);
    const listed = JSON.parse(place.svc("jobs", "--json").out) as { jobs: { id: string }[] };
    expect(listed.jobs.map(({ id }) => id)).toEqual([live]);
    expect(await asked("nobody")).toBe("job_not_found true");
  });

  test("a refusal is an SvcError with code, hint and field, and starts nothing", async () => {
    const s = script(l.argv(l.refused));
    expect(await s.exited, s.err()).toBe(0);
    expect(s.out().trim().toLowerCase()).toBe("entrypoint_not_found true spec.entrypoint");
    expect(statuses()).toEqual([]);
  });

  test("Ctrl-C while run(wait) blocks ends job and machine gracefully, and says so", async () => {
    const s = script(l.argv(l.startAndWait));
    await said(s, "calling");
    await atWork();
    // The blocking call must receive the signal.
    await pause(300);
    s.child.kill("SIGINT");
    const code = await s.exited;
    expect([130, null], s.err()).toContain(code);
    expect(s.err()).toMatch(/svc: .*end/);
    await controlPlaneGone();
    expect(statuses()).toEqual(["interrupted"]);
    expect(place.processes()).toEqual([]);
  });

  test("kill -9 of the script ends its runs as interrupted", async () => {
    const s = script(l.argv(l.start + l.rest));
    await said(s, "\n");
    await atWork();
    s.child.kill("SIGKILL");
    await s.exited;
    await controlPlaneGone();
    expect(statuses()).toEqual(["interrupted"]);
    expect(place.processes()).toEqual([]);
  });

  test("a caller that only reads after a crash starts no control plane and ends no run; one kill ends one run", async () => {
    const served = await place.serve();
    const [one, two] = [await served.submit({ entrypoint: "wait.py" }), await served.submit({ entrypoint: "wait.py" })];
    await until(() => place.scripts().length === 2, "both are at work");
    served.child.kill("SIGKILL");
    await served.exited;
    const look = script(l.argv(l.look(one)));
    expect(await look.exited, look.err()).toBe(0);
    expect(look.out().trim().split("\n")).toEqual([`${two} ${one}`, `running ${one}`, "true", "job_not_found"]);
    expect(statuses()).toEqual(["running", "running"]);
    const kill = script(l.argv(l.kill(one)));
    expect(await kill.exited, kill.err()).toBe(0);
    expect([kill.out().trim(), statuses()]).toEqual(["cancelled", ["running", "cancelled"]]);
    place.svc("kill", "--all");
  });

  test("a control plane that was already running is used, and left running with its runs", async () => {
    const served = await place.serve();
    const s = script(l.argv(l.start));
    expect(await s.exited, s.err()).toBe(0);
    await until(async () => (await served.job(s.out().trim())).status === "running", "the run goes on");
    expect(served.running).toBe(true);
    await served.post(`/jobs/${s.out().trim()}/kill`, {});
    expect((await served.ended(s.out().trim())).status).toBe("cancelled");
  });
});

test("scripts of both languages that start at once share one control plane, which ends with its starter", async () => {
  const both = Object.values(LANGUAGES).map((l) => script(l.argv(l.start + l.rest)));
  for (const s of both) await said(s, "\n");
  const ids = both.map((s) => s.out().trim());
  // The same store gave each id, so one control plane served all: the one that holds the store's lock.
  expect(ids.map((id) => place.svc("jobs", "--json").out.includes(id))).toEqual([true, true]);
  await until(() => place.scripts().length === 2, "both runs are at work");
  const third = script(LANGUAGES.python.argv(LANGUAGES.python.whole));
  expect(await third.exited, third.err()).toBe(0);
  expect(third.out()).toContain("failed|4");
  expect(both.every((s) => s.child.exitCode === null)).toBe(true);
  for (const s of both) s.child.kill("SIGKILL");
  await controlPlaneGone();
  expect(statuses().sort()).toEqual(["failed", "interrupted", "interrupted"]);
  expect(place.processes()).toEqual([]);
});
