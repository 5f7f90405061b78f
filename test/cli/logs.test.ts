// `svc logs` as processes on a stored log: which lines it prints, and how much memory that takes.

import { spawnSync } from "node:child_process";
import { appendFileSync, chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { homeLayout } from "../../src/platform/home-layout.ts";
import { CLI, until, Workplace } from "./serving.ts";

const LINES = 40;
/** The moment that the stored log gives to its first line. */
const START_MS = Date.UTC(2026, 0, 2, 3, 4, 0);

let at: Workplace;
let id: string;
/** A run whose script could not be started. */
let unstarted: string;
const line = (i: number): string => `${i % 10 === 9 ? "WARN " : ""}line ${String(i).padStart(4, "0")}`;
const lines = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, i) => `${line(from + i)}\n`).join("");

/** One second between two lines, whatever the speed of this computer was. */
function spaceTimes(): void {
  const db = new Database(homeLayout.store(at.home));
  db.prepare("DELETE FROM log_time WHERE job_id = ?").run(id);
  let offset = 0;
  for (let i = 0; i < LINES; i++) {
    db.prepare("INSERT INTO log_time (job_id, offset, at_ms) VALUES (?, ?, ?)").run(id, offset, START_MS + i * 1_000);
    offset += line(i).length + 1;
  }
  db.close();
}

beforeAll(async () => {
  at = new Workplace();
  at.file(
    "count.py",
    `for i in range(${LINES}):\n    print(("WARN " if i % 10 == 9 else "") + "line %04d" % i, flush=True)\n`,
  );
  const served = await at.serve();
  id = await at.submit(served, "count.py");
  expect(at.svc("logs", "-f", id, "--exit-status").code).toBe(0);
  at.file("broken", "\0\0\0");
  chmodSync(join(at.project, "broken"), 0o755);
  unstarted = await at.submit(served, "broken");
  await until(async () => (await at.status(served, unstarted)) === "failed", "the second run has failed");
  served.child.kill("SIGTERM");
  await served.exited;
  spaceTimes();
});
afterAll(() => at.close());

const moment = (second: number): string => new Date(START_MS + second * 1_000).toISOString();

test("A followed log and a wait end with the warnings of the run, on stderr", () => {
  const db = new Database(homeLayout.store(at.home));
  const of = "effect_id IN (SELECT id FROM effect WHERE job_id = ? AND step = 'collect')";
  const before = db.prepare(`SELECT detail FROM attempt WHERE ${of}`).pluck().get(id);
  const change = db.prepare(`UPDATE attempt SET detail = ? WHERE ${of}`);
  change.run(JSON.stringify({ warnings: ["The script saved files outside: model.pt."] }), id);
  const told = `${id}: The script saved files outside: model.pt.`;
  expect(at.svc("logs", "-f", "-n", "1", id)).toMatchObject({ out: lines(39, 40), err: expect.stringContaining(told) });
  expect(at.svc("logs", "-n", "1", id).err).toBe("");
  expect(at.svc("wait", id).err).toContain(told);
  change.run(before, id);
  db.close();
});

describe("the lines that are printed", () => {
  test.each([
    [["-n", "2"], lines(38, 40)],
    [["-n2"], lines(38, 40)],
    [["--tail=0"], ""],
    [["--since", moment(37)], lines(37, 40)],
    [["--since", moment(36.5)], lines(37, 40)],
    [["--until", moment(1)], lines(0, 2)],
    [["--since", moment(5), "--until", moment(7)], lines(5, 8)],
    [["--since", moment(5), "--until", moment(9), "-n", "2"], lines(8, 10)],
    [["--since", "2020-01-01"], lines(0, 40)],
    [["--since", "1s"], ""],
    [["--around", "20", "-n", "1"], lines(18, 21)],
    [["--around", "1", "-n", "0"], lines(0, 1)],
    [["--around", moment(20), "-n", "2"], lines(18, 23)],
    [["--around", "2099-01-01", "-n", "1"], lines(38, 40)],
    [["--around", "20"], lines(9, 30)],
    [["--grep", "^WARN"], [9, 19, 29, 39].map((i) => `${line(i)}\n`).join("")],
    [["--grep", "warn line 00[12]", "-i"], [19, 29].map((i) => `${line(i)}\n`).join("")],
    [["--grep", "absent"], ""],
  ])("%j", (flags, want) => {
    expect(at.svc("logs", id, ...flags)).toEqual({ code: 0, out: want, err: "" });
  });

  test("-t prefixes each line with its time", () => {
    expect(at.svc("logs", id, "-t", "-n", "1").out).toBe(`${moment(39)} ${line(39)}\n`);
  });

  test("--grep with --json keeps the offsets of the log", () => {
    const found = at.svc("logs", id, "--json", "--grep", "WARN", "--until", moment(12)).out.trimEnd().split("\n");
    expect(found.map((text) => JSON.parse(text))).toEqual([{ offset: 90, at: moment(9), line: line(9) }]);
  });

  test.each([
    [["--around", "41"], "has no line 41"],
    [["--around", "0"], "has no line 0"],
    [["--around", "soon"], "--around must be a line number or a time"],
    [["--since", "yesterday"], "--since must be a time"],
    [["--grep", "("], "is not a regular expression"],
    [["-i"], "--ignore-case has nothing to match"],
    [["--around", "3", "-f"], "--around cannot be combined"],
    [["--until", "1m", "-f"], "contradict"],
  ])("%j is refused in plain words", (flags, words) => {
    const r = at.svc("logs", id, ...flags);
    expect([r.code, r.out, r.err.includes(words)], r.err).toEqual([2, "", true]);
  });
});

test("One line says that a run ended before its script started, and why", () => {
  const { error } = JSON.parse(at.svc("jobs", "--json").out).jobs.find((job: { id: string }) => job.id === unstarted);
  const why = `${unstarted} has no log because it ended before its script started: ${error.message}\n`;
  expect(at.svc("logs", unstarted)).toEqual({ code: 0, out: "", err: why });
  expect(at.svc("logs", unstarted, "--json")).toEqual({ code: 0, out: "", err: "" });
});

describe("a log of one line of 300 MB", () => {
  const SIZE = 300 * 1024 * 1024;
  const USAGE = `import resource, subprocess, sys
with open(sys.argv[1], "wb") as out:
    code = subprocess.run(sys.argv[2:], stdout=out, stderr=subprocess.STDOUT).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, code)
`;
  let small: number;

  /** The largest memory of the command in bytes, and its exit code. */
  function measured(...flags: string[]): { bytes: number; code: number } {
    const out = join(at.root, "out");
    const r = spawnSync("python3", ["-c", USAGE, out, CLI, "logs", id, ...flags], { env: at.env, encoding: "utf8" });
    const [bytes = 0, code = 1] = r.stdout.trim().split(" ").map(Number);
    return { bytes, code };
  }

  beforeAll(() => {
    small = measured("-n", "1").bytes;
    const file = homeLayout.log(at.home, id);
    const before = readFileSync(file).length;
    const part = Buffer.alloc(1024 * 1024, "x");
    for (let i = 0; i < SIZE / part.length; i++) appendFileSync(file, part);
    const db = new Database(homeLayout.store(at.home));
    db.prepare("UPDATE log SET stored_bytes = ? WHERE job_id = ?").run(before + SIZE, id);
    db.close();
  });

  test.each([[[]], [["-n", "1"]], [["-t", "--since", moment(39)]], [["--grep", "line 0039"]], [["--around", "40"]]])(
    "logs %j takes less than two thirds of the line more than for a short log",
    (flags) => {
      const { bytes, code } = measured(...flags);
      expect(code).toBe(0);
      // Pieces of a line are freed when the collector runs, so the bound is far from what is usual (some 60 MB).
      expect(bytes - small).toBeLessThan((SIZE * 2) / 3);
    },
  );
});
