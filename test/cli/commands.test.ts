// The CLI as processes, on real homes, with a real control plane and real local runs.

import { spawn, spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { gathered } from "../gathered.ts";
import { CLI, until, Workplace, type Served } from "./serving.ts";

let at: Workplace;
beforeEach(() => void (at = Workplace.own("most tests end, kill or configure it")));
afterEach(() => at.close());

const COUNT = `import sys, time
for i in range(int(sys.argv[1])):
    print("line %04d" % i, flush=True)
    time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
`;

/** Prints lines until the file in its argument exists. */
const COUNT_UNTIL = `import os, sys, time
i = 0
while not os.path.exists(sys.argv[1]):
    print("line %04d" % i, flush=True)
    i += 1
    time.sleep(0.1)
`;

/** Runs `svc serve` beyond loopback on a terminal, until its last line before it waits for callers. */
const ON_TERMINAL = `import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "serve", "--host", "0.0.0.0", "--port", "0", "--open"])
try:
    while True:
        sys.stdout.buffer.write(os.read(fd, 4096))
        sys.stdout.flush()
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

/** A /proc of processes alone, as a hardened service has it. */
const HIDDEN = 'mount -t proc -o subset=pid proc /proc && exec "$0" serve --port 0 --json';

describe("a home that was never used", () => {
  test("reading reports an empty home and creates nothing", () => {
    const missing = `The home ${at.home} does not exist, so it has no runs. If you expected some, check SVC_HOME.\n`;
    expect(at.svc("jobs")).toEqual({ code: 0, out: "", err: missing });
    for (const words of [["costs"], ["kill", "--all"]]) expect(at.svc(...words).err).toContain(missing);
    expect(JSON.parse(at.svc("jobs", "--json").out)).toEqual({ jobs: [], next_cursor: null });
    for (const words of [
      ["limits"],
      ["top"],
      ["code", "ls"],
      ["data", "ls"],
      ["prune", "--older-than", "3d", "--dry-run"],
    ])
      expect(at.svc(...words), words.join(" ")).toMatchObject({ code: 0, err: expect.stringContaining(missing) });
    for (const words of [["credentials"], ["notify"], ["notify", "history"], ["reconcile"], ["reconcile", "--dry-run"]])
      expect(at.svc(...words), words.join(" ")).toMatchObject({ code: 0, err: expect.stringContaining(missing) });
    expect(at.svc("credentials", "rm", "podhost").err).toContain(
      "This home stores no credential podhost: nothing was removed.",
    );
    expect(at.svc("logs", "abc")).toEqual({ code: 3, out: "", err: `This home has no run abc.\n${missing}` });
    expect(at.svc("logs", "last").err).toContain(missing);
    expect(at.svc("kill", "--all").code).toBe(0);
    expect(existsSync(at.home)).toBe(false);
  });

  test("a home without runs is named where a run or `last` is asked for", () => {
    mkdirSync(at.home);
    expect(at.svc("jobs").err).toBe(
      `The home ${at.home} holds nothing of svc, so it has no runs. If you expected some, check SVC_HOME.\n`,
    );
    expect(at.svc("limits", "set", "max_gpus=2").code).toBe(0);
    expect(at.svc("logs", "last").err).toBe(
      `No run has the id last.\n\`last\` is the newest run, and the home ${at.home} has none yet. If you expected one, check SVC_HOME.\n`,
    );
    expect(at.svc("logs", "abc").err).toBe(
      `This home has no run abc.\n\`svc jobs --all\` lists the runs of the home ${at.home}. If you expected to find it there, check SVC_HOME.\n`,
    );
  });

  test("a `~` at the beginning of SVC_HOME is the folder of the user, as in Python", () => {
    const user = join(at.root, "user");
    const env = { ...at.env, HOME: user, SVC_HOME: "~/state" };
    mkdirSync(user);
    expect(spawnSync(CLI, ["limits", "set", "max_gpus=2"], { cwd: at.root, env, encoding: "utf8" }).stderr).toBe("");
    expect([existsSync(join(user, "state/svc.db")), existsSync(join(at.root, "~"))]).toEqual([true, false]);
  });

  test("a home without runs has no `last`, and the error says so", () => {
    at.svc("limits", "set", "max_gpus=2");
    expect(at.svc("logs", "last").err).toContain("`last` is the newest run, and the home ");
  });

  test.each([["gpus"], ["--help"], ["jobs", "--help"]])(
    "output that a full disk refuses is an error: %s",
    (...words) => {
      const full = openSync("/dev/full", "w");
      const r = spawnSync(CLI, words, { cwd: at.root, env: at.env, encoding: "utf8", stdio: ["ignore", full, "pipe"] });
      closeSync(full);
      expect([r.status, r.stderr]).toEqual([1, expect.stringContaining("could not be written: its disk is full.")]);
    },
  );

  test("an error is two lines, or one JSON object", () => {
    const plain = at.svc("timeline", "abc");
    expect([plain.code, plain.out, plain.err.trimEnd().split("\n").length]).toEqual([3, "", 2]);
    const json = at.svc("--json", "timeline", "abc");
    expect([json.code, json.out]).toEqual([3, ""]);
    expect(Object.keys(JSON.parse(json.err).error)).toEqual(["code", "message", "hint"]);
    expect(JSON.parse(at.svc("jobz", "--json").err).error.code).toBe("usage");
  });

  test("`svc run` prints the three ways and ends with 2", () => {
    const r = at.svc("run", "train.py", "--");
    expect(r.code).toBe(2);
    for (const word of ["svc.run(", "/jobs", "svc serve --open"]) expect(r.out).toContain(word);
  });

  test("`svc sim` on a port in use names the port and leaves nothing", { tags: "needs/sshd" }, async () => {
    const holder = createServer();
    await new Promise<void>((resolve) => void holder.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void holder.close());
    const { port } = holder.address() as AddressInfo;
    const temporary = join(at.root, "tmp");
    mkdirSync(temporary);
    at.env["TMPDIR"] = temporary;
    const r = at.svc("sim", "market", "--port", String(port), "--json");
    expect([r.code, r.out, JSON.parse(r.err.trim().split("\n").at(-1) ?? "").error.code]).toEqual([
      1,
      "",
      "port_taken",
    ]);
    expect(r.err).toContain(`Port ${port} `);
    expect(readdirSync(temporary).filter((name) => name.startsWith("svc-sim-"))).toEqual([]);
  });

  test("doctor finds the fault of a home", () => {
    expect(at.svc("doctor").out).toContain("ok\thome\t");
    expect(at.svc("doctor").out).toMatch(/^(ok\tsim\t|warn\tsim\tlacks .*`apt install )/m);
    mkdirSync(at.home, { mode: 0o777 });
    const { mode } = statSync(at.home);
    writeFileSync(join(at.home, "x"), "");
    const checks = JSON.parse(at.svc("doctor", "--json").out).checks as { name: string; status: string; fix: string }[];
    const home = checks.find((c) => c.name === "home");
    expect(home?.status, mode.toString(8)).not.toBe("ok");
    expect(home?.fix).toContain("chmod 700");
  });

  test("a home that is a file, or is inside a file, gives one clear error, and the file is untouched", () => {
    writeFileSync(at.home, "mine");
    const below = at.svcIn(join(at.home, "below"), "jobs");
    expect([below.code, below.out]).toEqual([1, ""]);
    expect(below.err).toContain("below");
    for (const args of [["serve", "--port", "0"], ["reconcile"]]) {
      const r = at.svc(...args);
      expect(r.code, args.join(" ")).toBe(1);
      expect(r.err).toContain(at.home);
    }
    expect(at.svc("doctor").code).toBe(1);
    expect(readFileSync(at.home, "utf8")).toBe("mine");
  });
});

describe("with a control plane of its own", () => {
  test("follows a run to its end, gives its exit code, and reads everything afterwards without one", async () => {
    at.file("count.py", COUNT);
    const served = await at.serve();
    const id = await at.submit(served, "count.py", ["40", "0.02", "7"]);
    const want = Array.from({ length: 40 }, (_, i) => `line ${String(i).padStart(4, "0")}\n`).join("");
    const followed = at.svc("logs", "-f", id, "--exit-status");
    expect([followed.out, followed.code]).toEqual([want, 7]);
    expect(followed.err).toContain(`${id}: failed. The script ended with exit code 7.`);

    served.child.kill("SIGTERM");
    expect(await served.exited).toBe(0);
    expect(existsSync(join(at.home, "control-plane.json"))).toBe(false);

    const short = id.slice(0, -1);
    expect(at.svc("logs", short).out).toBe(want);
    expect(at.svc("logs", id.slice(-4)).out).toBe(want);
    expect(at.svc("logs", id.slice(-2)).code).toBe(3);
    expect(at.svc("logs", "last").out).toBe(want);
    expect(at.svc("logs", id, "--tail", "2").out).toBe("line 0038\nline 0039\n");
    expect(at.svc("logs", id, "--tail", "0").out).toBe("");
    const stamped = at.svc("logs", id, "--timestamps", "--tail", "1").out;
    expect(stamped).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z line 0039\n$/);
    const lines = at
      .svc("logs", id, "--json")
      .out.trimEnd()
      .split("\n")
      .map((l) => JSON.parse(l));
    expect(lines.map((l) => `${l.line}\n`).join("")).toBe(want);
    expect(lines[3].offset).toBe(30);

    const row = at.svc("jobs").out.trimEnd().split("\t");
    expect(row.slice(0, 3)).toEqual([id, "failed", "7"]);
    expect(row.at(-1)).toBe("The script ended with exit code 7. Its last line was: line 0039");
    expect(JSON.parse(at.svc("jobs", "--json", "--status", "succeeded").out).jobs).toEqual([]);
    const steps = at
      .svc("timeline", id)
      .out.trimEnd()
      .split("\n")
      .map((l) => l.split("\t")[0]);
    expect(steps).toEqual(expect.arrayContaining(["provision", "launch", "stream", "terminate"]));
    expect(at.svc("code", "show", id).out).toContain("count.py");
    expect(at.svc("ssh", id).err).toContain("no machine to log in to");
    expect(at.svc("logs", "-f", id).out).toBe(want);
    expect(at.svc("reconcile", "--json").code).toBe(0);
  });

  test("a wrong address of one provider affects only that provider's runs", async () => {
    at.file("count.py", COUNT);
    Object.assign(at.env, { SVC_PODHOST_URL: "nonsense", PODHOST_API_KEY: "key", MARKET_API_KEY: "key" });
    const served = await at.serve();
    const { providers } = await (await fetch(`${served.url}/v1/providers`)).json();
    const found = Object.fromEntries(providers.map((p: { name: string }) => [p.name, p]));
    expect(found.podhost).toMatchObject({
      connected: false,
      missing: ["SVC_PODHOST_URL is not an address like https://host/path"],
    });
    expect(found.market).toMatchObject({ connected: true, missing: [] });
    const refused = await fetch(`${served.url}/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        spec: { entrypoint: "count.py", project_dir: at.project, provider: "podhost", gpus: "A40" },
      }),
    });
    expect([refused.status, await refused.json()]).toEqual([
      400,
      expect.objectContaining({
        code: "provider_unavailable",
        errors: [{ field: "spec.provider", message: expect.stringContaining("SVC_PODHOST_URL") as string }],
      }),
    ]);
    const id = await at.submit(served, "count.py", ["3", "0"]);
    expect(at.svc("logs", "-f", id, "--exit-status").code).toBe(0);
    const report = JSON.parse(at.svc("reconcile", "--dry-run", "--json").out);
    expect(report.failed).toEqual([]);
  });

  test("says that a run without a control plane has not ended, and shows the named runs", async () => {
    at.file("count.py", COUNT);
    const served = await at.serve();
    const id = await at.submit(served, "count.py", ["1000", "0.1", "0"]);
    const other = await at.submit(served, "count.py", ["1", "0", "0"]);
    expect(at.svc("logs", "-f", other, "--exit-status").code).toBe(0);
    served.child.kill("SIGKILL");
    await served.exited;
    const followed = at.svc("logs", "-f", id, "--exit-status");
    expect([followed.code, followed.err]).toEqual([5, expect.stringContaining("No control plane follows run")]);
    const named = JSON.parse(at.svc("jobs", other, id, other, "--json").out) as { jobs: { id: string }[] };
    expect(named.jobs.map((job) => job.id)).toEqual([other, id]);
    const narrowed = JSON.parse(at.svc("jobs", "--provider", "local", "--label", "none", "--json").out);
    expect(narrowed).toEqual({ jobs: [], next_cursor: null });
    expect([at.svc("jobs", "nobody").code, at.svc("jobs", id, "--all").code]).toEqual([3, 2]);
    at.svc("kill", id);
  });

  test("kill returns when the run has ended; a second kill changes nothing; unknown ids kill nothing", async () => {
    at.file("count.py", COUNT);
    const served = await at.serve();
    const [one, two] = [
      await at.submit(served, "count.py", ["9999", "0.1"]),
      await at.submit(served, "count.py", ["9999", "0.1"]),
    ];
    expect(at.svc("kill", one, "nosuchjob").code).toBe(3);
    expect(await at.status(served, one)).not.toBe("cancelled");
    const first = at.svc("kill", one);
    expect([first.code, first.out]).toEqual([0, `${one}\tcancelled\n`]);
    expect(at.svc("kill", one).out).toBe(`${one}\tcancelled\n`);
    expect(
      JSON.parse(at.svc("kill", "--all", "--json").out).jobs.map((j: { id: string; status: string }) => [
        j.id,
        j.status,
      ]),
    ).toEqual([[two, "cancelled"]]);
    expect(at.svc("kill", "--all").err).toContain("nothing to kill");
  });

  test("logs -f outlives the control plane: it says so, waits for the next one, and ends with 0 when the run has ended", async () => {
    const end = join(at.project, "end");
    at.file("count.py", COUNT_UNTIL);
    const first = await at.serve();
    const id = await at.submit(first, "count.py", [end]);
    await until(async () => (await at.status(first, id)) === "running", "the run runs");
    const follow = at.start("logs", "-f", id);
    const lines = (): number => follow.out().split("\n").length;
    await until(() => lines() > 1, "it prints what is stored");
    const stored = lines();
    await until(() => lines() > stored + 5, "it prints what the control plane tells");
    first.child.kill("SIGKILL");
    await first.exited;
    await until(() => follow.err().includes("waiting 60 s"), "it says that it waits");
    await at.serve();
    await until(
      () => follow.err().includes("A control plane is running run"),
      "it says that another one drives the run",
    );
    writeFileSync(end, "");
    expect(await follow.exited).toBe(0);
    expect(follow.out()).toBe(at.svc("logs", id).out);
  });

  test("kill drives the end itself when the control plane was killed, and leaves the other run alone", async () => {
    at.file("count.py", COUNT);
    const served = await at.serve();
    const [one, two] = [
      await at.submit(served, "count.py", ["9999", "0.1"]),
      await at.submit(served, "count.py", ["9999", "0.1"]),
    ];
    for (const id of [one, two]) await until(async () => (await at.status(served, id)) === "running", `${id} runs`);
    served.child.kill("SIGKILL");
    await served.exited;

    const follow = at.svc("logs", "-f", two);
    // The run has not ended, so the exit code must not be 0.
    expect(follow.code).toBe(5);
    expect(follow.err).toContain("No control plane follows run");
    const r = at.svc("kill", one);
    expect([r.code, r.out], r.err).toEqual([0, `${one}\tcancelled\n`]);
    expect(
      JSON.parse(at.svc("jobs", "--json", "--status", "running").out).jobs.map((j: { id: string }) => j.id),
    ).toEqual([two]);

    const again = await at.serve();
    await until(() => again.err().includes(two), "it says what it goes on with");
    await until(async () => (await at.status(again, two)) === "running", "the other run goes on");
    expect(at.svc("kill", two).code).toBe(0);
  });

  test("a second control plane refuses and names the holder; the stale file of a dead one does not count", async () => {
    const served = await at.serve();
    const second = at.svc("serve", "--port", "0");
    expect(second.code).toBe(1);
    expect(second.err).toContain(String(served.child.pid));
    const file = readFileSync(join(at.home, "control-plane.json"), "utf8");
    expect(statSync(join(at.home, "control-plane.json")).mode & 0o777).toBe(0o600);
    expect(new URL(JSON.parse(file).url).hostname).toBe("127.0.0.1");
    served.child.kill("SIGKILL");
    await served.exited;
    expect(existsSync(join(at.home, "control-plane.json"))).toBe(true);
    const r = at.svc("reconcile");
    expect(r.code, r.err).toBe(0);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 0],
    ["SIGHUP", 0],
    ["the end of stdin", 0],
  ])("%s ends runs in order and says so", async (how, code) => {
    at.file("count.py", COUNT);
    const served = await at.serve("--until-eof");
    const id = await at.submit(served, "count.py", ["9999", "0.1"]);
    await until(async () => (await at.status(served, id)) === "running", "it runs");
    if (how.startsWith("SIG")) served.child.kill(how as NodeJS.Signals);
    else served.child.stdin?.end();
    expect(await served.exited).toBe(code);
    expect(served.err()).toContain("ending 1 run");
    expect(JSON.parse(at.svc("jobs", "--json").out).jobs[0].status).toBe("interrupted");
    expect(readdirSync(at.home)).not.toContain("control-plane.json");
  });

  test("beyond loopback it prints a link for a browser, only on a terminal, and passes it to no other program", async () => {
    const bin = join(at.root, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "xdg-open"), `#!/bin/sh\necho "$@" > ${at.root}/opened\n`, { mode: 0o755 });
    const env = { ...at.env, PATH: `${bin}:${at.env["PATH"]}` };
    const terminal = spawn("python3", ["-c", ON_TERMINAL, CLI], { env, cwd: at.project });
    // The control plane ends with its terminal.
    onTestFinished(() => void terminal.kill());
    const { out, exited } = gathered(terminal);
    await until(() => /token=\S+\s/.test(out()), "it prints the link");
    const link = /http:\S+\?token=\S+/.exec(out())?.[0] ?? "";
    const answers = [await fetch(link, { redirect: "manual" }), await fetch(link, { redirect: "manual" })];
    expect(answers.map((answer) => answer.status)).toEqual([303, 401]);
    const { pid } = JSON.parse(readFileSync(join(at.home, "control-plane.json"), "utf8"));
    process.kill(pid, "SIGTERM");
    expect(await exited).toBe(0);
    expect(existsSync(join(at.root, "opened"))).toBe(false);

    const piped = await at.serve("--host", "0.0.0.0", "--open");
    const opened = at.svc("open", "costs", "--print");
    const again = /http:\S+\?token=\S+/.exec(opened.err)?.[0] ?? "";
    expect(opened.out).toMatch(/^http:\S+\/costs\n$/);
    expect((await fetch(again, { redirect: "manual" })).status).toBe(303);
    piped.child.kill("SIGTERM");
    await piped.exited;
    expect(piped.err()).toContain(join(at.home, "token"));
    expect(piped.err()).not.toContain("token=");
  });

  test(
    "requires the token from every caller where the system hides their users",
    { tags: "needs/hidden-proc" },
    async () => {
      const child = spawn("unshare", ["-m", "sh", "-c", HIDDEN, CLI], { env: at.env, cwd: at.project });
      onTestFinished(() => void child.kill());
      const { out, err, exited } = gathered(child);
      await until(() => out().includes("\n") || child.exitCode !== null, "svc serve is ready, or has ended");
      const url = `${JSON.parse(out() || err()).url as string}/v1/health`;
      const authorization = `Bearer ${readFileSync(join(at.home, "token"), "utf8").trim()}`;
      expect([(await fetch(url)).status, (await fetch(url, { headers: { authorization } })).status]).toEqual([
        401, 200,
      ]);
      child.kill("SIGTERM");
      expect(await exited).toBe(0);
    },
  );
});

describe("while a control plane runs", () => {
  const place = new Workplace();
  let served: Served;
  beforeAll(async () => {
    place.file("count.py", COUNT);
    served = await place.serve();
  });
  afterAll(() => place.close());

  test("the timeline names the files that were left out of the code, with the reason", async () => {
    place.file("train.py", "print(1)");
    place.file(".env", "TOKEN=1");
    const id = await place.submit(served, "train.py");
    expect(place.svc("logs", "-f", id, "--exit-status").code).toBe(0);
    const { steps } = JSON.parse(place.svc("timeline", id, "--json").out) as {
      steps: { step: string; detail: Record<string, unknown> }[];
    };
    expect(steps.find(({ step }) => step === "sync")?.detail["left_out"]).toMatchObject({
      count: 1,
      names: [{ path: ".env", why: expect.stringContaining("secret") }],
    });
  });

  test("logs --rank prints only the lines of one rank, on several nodes and with progress bars, too", async () => {
    place.file(
      "ranks.py",
      String.raw`print("svc: words", "[rank0] a", "\r[rank1] 1/2\r[rank1] 2/2", "[rank10] b", "[node1] [rank1] c", sep="\n")`,
    );
    const id = await place.submit(served, "ranks.py");
    expect(place.svc("logs", "-f", id, "--rank", "1").out).toBe("\r[rank1] 1/2\r[rank1] 2/2\n[node1] [rank1] c\n");
    expect(place.svc("logs", id, "--rank", "0").out).toBe("[rank0] a\n");
    expect(place.svc("logs", id, "--rank", "x").code).toBe(2);
  });

  test("Ctrl-C ends a follower with 130 and leaves the run alone; a closed reader ends it quietly", async () => {
    const id = await place.submit(served, "count.py", ["9999", "0.02"]);
    const follower = place.start("logs", "-f", id);
    await until(() => follower.out().includes("line 0003"), "it follows");
    follower.child.kill("SIGINT");
    expect(await follower.exited).toBe(130);
    const piped = place.start("logs", "-f", id);
    await until(() => piped.out() !== "", "it follows");
    piped.child.stdout?.destroy();
    expect(await piped.exited).toBe(0);
    expect(piped.err()).toBe("");
    expect(await place.status(served, id)).toBe("running");
    expect(place.svc("kill", id).code).toBe(0);
  });
});
