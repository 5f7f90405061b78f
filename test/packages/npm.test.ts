// The npm package: `npm pack`, installed into an empty folder, on a computer with nothing but Node.

import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isAlive } from "../../sdk/discover.ts";
import { appears, call, copyOfSources, emptyComputer, ENDLESS, must, ROOT, start, TRAIN } from "./harness.ts";

const VERSION = (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string }).version;
const computer = emptyComputer();
const sources = copyOfSources();
const project = join(computer.folder, "project");
const bin = join(computer.folder, "bin");
const env = (): Record<string, string> => computer.env([bin]);
let files: string[] = [];

const SCRIPT = `import { run, stream, SvcError, type JobRecord, type RunParameters } from "svc";
const parameters: RunParameters = { task: { entrypoint: "train.py" }, provider: "local", gpus: "cpu", wait: true };
const job: JobRecord = await run(parameters);
console.log("status", job.status, job.exit_code);
for await (const line of stream(job.id)) console.log("log", line);
try {
  await run({ ...parameters, gpus: "" });
} catch (error) {
  if (error instanceof SvcError) console.log("refused", error.code);
}
`;

beforeAll(() => {
  const packed = must(["npm", "pack", "--json", "--silent", "--pack-destination", computer.folder], {
    cwd: sources.folder,
  });
  // npm 12 returns an object by package name, earlier versions a list.
  const said = JSON.parse(packed.slice(packed.search(/^[[{]/m))) as object;
  const [{ filename, files: all }] = Object.values(said) as [{ filename: string; files: { path: string }[] }];
  files = all.map(({ path }) => path);
  mkdirSync(bin);
  symlinkSync(process.execPath, join(bin, "node"));
  symlinkSync(must(["python3", "-c", "import sys; print(sys.executable)"]).trim(), join(bin, "python3"));
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  writeFileSync(join(project, "train.py"), TRAIN);
  writeFileSync(join(project, "endless.py"), ENDLESS);
  writeFileSync(join(project, "go.ts"), SCRIPT);
  must(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", join(computer.folder, filename)], {
    cwd: project,
  });
});
afterAll(() => {
  computer.remove();
  sources.remove();
});

test("The npm package holds the program, the SDK and its types, and no sources, tests or maps", () => {
  const folders = new Set(
    files.filter((path) => !path.startsWith("docs/")).map((path) => dirname(path).split("/").slice(0, 2).join("/")),
  );
  expect([...folders].toSorted()).toEqual(
    [
      ".",
      "bin",
      "dashboard/dist",
      "dist",
      "dist/chunks",
      "dist/man",
      "dist/sdk",
      "dist/sim",
      "dist/site",
      "dist/types",
      "examples/digits",
      "python/svc",
      "runner/svc_agent",
      "runner/svc_gate",
      "runner/svc_runner",
    ].toSorted(),
  );
  expect(files.filter((path) => /\.map$|\.pyc$|(?<!\.d)\.ts$/.test(path))).toEqual([]);
  for (const file of [
    "dist/THIRD-PARTY.txt",
    "dist/man/svc.1",
    "docs/reference/cli.md",
    "docs/guide/troubleshooting.md",
    "dist/sim/machine.sh",
  ])
    expect(files).toContain(file);
  expect(files.filter((path) => path.startsWith("docs/") && !path.endsWith(".md"))).toEqual([]);
});

test("The npm package has its own README, whose links work, and leaves that of the checkout unchanged", () => {
  const text = readFileSync(join(project, "node_modules/svc/README.md"), "utf8");
  expect(text).toBe(readFileSync(join(ROOT, "sdk/README.md"), "utf8"));
  expect(text.match(/\]\((?!https?:)/g)).toBeNull();
  expect(readFileSync(join(sources.folder, "README.md"), "utf8")).toBe(readFileSync(join(ROOT, "README.md"), "utf8"));
});

test("The npm package contains the documentation and the simulators", () => {
  const svc = join(project, "node_modules/.bin/svc");
  expect(must([svc, "docs"], { env: env() })).toContain("reference/credentials\n");
  expect(must([svc, "docs", "credentials"], { env: env() })).toContain("# Credentials");
  expect(call([svc, "sim", "nobody"], { env: env() }).err).toContain("nobody is not simulated");
});

test("svc tells the user of an older Node on the PATH what to do, and uses one that npm installed with it", () => {
  const old = join(computer.folder, "old");
  mkdirSync(old);
  writeFileSync(join(old, "node"), "#!/bin/sh\necho v20.19.0\n", { mode: 0o755 });
  const svc = join(project, "node_modules/.bin/svc");
  const refused = call([svc, "--version"], { env: computer.env([old]) });
  expect(refused.err).toContain("is v20.19.0");
  expect(refused.err).toContain("npm install node@24");
  expect(refused.err).not.toContain("npm run setup");
  const beside = join(project, "node_modules/.bin/node");
  symlinkSync(process.execPath, beside);
  expect(must([svc, "--version"], { env: computer.env([old]) })).toBe(`svc ${VERSION}\n`);
  rmSync(beside);
});

test("The npm package contains its command, and no Node that would come before the project's own", () => {
  expect(must([join(project, "node_modules/.bin/svc"), "--version"], { env: env() })).toBe(`svc ${VERSION}\n`);
  expect(must(["npx", "svc", "--version"], { cwd: project })).toBe(`svc ${VERSION}\n`);
  expect(must(["ls", join(project, "node_modules/.bin")]).trim()).toBe("svc");
  expect(must([join(project, "node_modules/.bin/svc"), "doctor"], { env: env() })).toContain(` at ${process.execPath}`);
});

test("its types are right for a strict compiler that looks into libraries, too", () => {
  const options = { target: "ES2024", lib: ["ES2024", "DOM"], module: "nodenext", strict: true, types: [] };
  const compilerOptions = { ...options, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: false };
  const check = (source: string) => {
    writeFileSync(join(project, "checked.ts"), source);
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["checked.ts"] }));
    return call([process.execPath, join(ROOT, "node_modules/typescript/bin/tsc"), "-p", project], { cwd: project });
  };
  const console = "declare const console: { log(...words: unknown[]): void };\n";
  expect(check(console + SCRIPT)).toEqual({ code: 0, out: "", err: "" });
  const wrong = check(SCRIPT.replace('"train.py"', "5").replace('status"', 'status", job.no_such_field'));
  expect(wrong.out).toMatch(/TS2322: Type 'number' is not assignable to type 'string'/);
  expect(wrong.out).toMatch(/TS2339: Property 'no_such_field' does not exist/);
});

test("a script that imports the SDK does a run", () => {
  const said = must(["node", "go.ts"], { env: env(), cwd: project });
  expect(said).toContain("status succeeded 0");
  expect(said).toContain(`log trained with ${VERSION}`);
  expect(said).toContain("refused invalid_request");
});

test("Ctrl-C ends its run in order", async () => {
  const code = `import { run } from "svc";
await run({ task: { entrypoint: "endless.py" }, provider: "local", gpus: "cpu", wait: true });`;
  const node = ["node", "--input-type=module", "--eval", code];
  const running = start(node, { env: env(), cwd: project });
  const pid = Number(await appears(join(project, "started"), running));
  running.child.kill("SIGINT");
  const end = await running.ended;
  expect(running.child.signalCode ?? end.code, end.err).toSatisfy((how) => how === 130 || how === "SIGINT");
  // The SDK's process may end before the control plane that it stops: the next command waits for the home's lock.
  const jobs = must([join(project, "node_modules/.bin/svc"), "reconcile", "--json"], { env: env() });
  expect(jobs).toBeTruthy();
  const rows = JSON.parse(must([join(project, "node_modules/.bin/svc"), "jobs", "--json"], { env: env() })) as unknown;
  const [first] = (Array.isArray(rows) ? rows : (rows as { jobs: unknown[] }).jobs) as { status: string }[];
  expect(["interrupted", "cancelled"]).toContain(first?.status);
  expect(isAlive({ pid })).toBe(false);
});
