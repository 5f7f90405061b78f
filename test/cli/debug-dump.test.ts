// `svc debug-dump` as a process: what the archive contains, and that no secret is in it.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeAll, expect, test } from "vitest";
import { homeLayout } from "../../src/platform/home-layout.ts";
import { Workplace } from "./serving.ts";

const CANARY = "canary-2f8b1c5d9e7a4036";
const OTHER = "T0therT0ken9f8e7d6c";
const HALF = CANARY.slice(6);
let at: Workplace;
let id: string;

beforeAll(async () => {
  at = new Workplace();
  at.file(
    "train.py",
    `import os\nprint("key", os.environ.get("MARKET_API_KEY"), "${CANARY}", "${OTHER}", flush=True)\nraise SystemExit("${CANARY} ended it")\n`,
  );
  const served = await at.serve();
  id = await at.submit(served, "train.py", ["--note", CANARY]);
  expect(at.svc("wait", id).code).toBe(0);
  served.child.kill("SIGTERM");
  await served.exited;
  // From now on it is a secret: it is in the log, the arguments and the error that were stored before.
  at.env["MARKET_API_KEY"] = CANARY;
  // The archive takes the last 2 MiB, which begin within the first line's secret.
  const last = "key \n".padStart(2 * 1024 * 1024 - HALF.length - 1, ".\n");
  writeFileSync(homeLayout.controlPlaneLog(at.home), `key ${CANARY}\n${last}`);
  writeFileSync(homeLayout.settings(at.home), JSON.stringify({ note: CANARY }));
});
afterAll(() => at.close());

test("The archive explains the whole run, is private, and contains no secret", () => {
  expect(readFileSync(homeLayout.log(at.home, id), "utf8")).toContain(CANARY);
  const r = at.svc("debug-dump", "last");
  const file = join(at.project, `svc-debug-${id}.tar.gz`);
  expect([r.code, r.out], r.err).toEqual([0, `${file}\n`]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const folder = join(at.root, "unpacked");
  mkdirSync(folder);
  expect(spawnSync("tar", ["-xzf", file, "-C", folder]).status).toBe(0);
  const text = (name: string): string => readFileSync(join(folder, name), "utf8");
  expect(readdirSync(folder).filter((name) => text(name).includes(HALF))).toEqual([]);
  expect(JSON.parse(text("record.json"))).toMatchObject({ id, status: "failed", exit_code: 1 });
  expect(text("log-tail.txt")).toContain("key");
  expect(JSON.parse(text("timeline.json")).steps.length).toBeGreaterThan(3);
  expect(JSON.parse(text("events.json")).map(({ type }: { type: string }) => type)).toContain("job.created");
  expect(JSON.parse(text("versions.json")).variables_set).toContain("MARKET_API_KEY");
  expect(text("control-plane-log-tail.txt")).toContain("key ");
});

test("Without a control plane a secret of a target of notifications is masked where this environment has it", () => {
  // The control plane ended before anybody knew that the hook's token, and the one of the other's address, are secrets.
  const db = new Database(homeLayout.store(at.home));
  const put = db.prepare("INSERT INTO notify_target (name, kind, settings, created_at) VALUES (?, 'webhook', ?, 0)");
  put.run("hook", JSON.stringify({ kind: "webhook", url: "https://a.example/x", secret_ref: "env://HOOK_SECRET" }));
  put.run(
    "lost",
    JSON.stringify({ kind: "webhook", url: `https://b.example/x?token=${OTHER}`, secret_ref: "env://NOT_SET" }),
  );
  put.run("later", "[]");
  db.close();
  delete at.env["MARKET_API_KEY"];
  const shown = () => at.svc("logs", id).out;
  expect(shown()).not.toContain(OTHER);
  expect(shown()).toContain(CANARY);
  at.env["HOOK_SECRET"] = CANARY;
  expect(shown()).not.toContain(CANARY);
  const file = join(at.root, "targets.tar.gz");
  expect(at.svc("debug-dump", id, "-o", file).code).toBe(0);
  const { stdout } = spawnSync("tar", ["-xzOf", file], { encoding: "utf8" });
  expect(stdout).toContain("train.py");
  expect([stdout.includes(CANARY), stdout.includes(OTHER)]).toEqual([false, false]);
  at.env["MARKET_API_KEY"] = CANARY;
});

test("Commands that read the store mask it in what was stored before", () => {
  for (const argv of [["timeline", id, "--json"], ["timeline", id], ["jobs", "--json"], ["costs", id], ["limits"]])
    expect(at.svc(...argv).out).not.toContain(CANARY);
});

test("An existing file is not overwritten", () => {
  const file = join(at.root, "mine");
  writeFileSync(file, "mine");
  const r = at.svc("debug-dump", id, "-o", file);
  expect([r.code, readFileSync(file, "utf8")]).toEqual([1, "mine"]);
  expect(r.err).toContain("already exists");
});

test("An unknown run ends with exit code 3", () => {
  expect(at.svc("debug-dump", "zzzz").code).toBe(3);
});
