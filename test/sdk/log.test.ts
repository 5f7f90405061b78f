// log() in a separate process, whose output the test reads like the control plane.

import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, constants, existsSync, mkdtempSync, openSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const MARK = "k3f9";
const sdk = JSON.stringify(join(import.meta.dirname, "../../sdk/index.ts"));
let cwd: string;
beforeEach(() => void (cwd = realpathSync(mkdtempSync(join(tmpdir(), "svc-log-")))));
afterEach(() => rmSync(cwd, { recursive: true, force: true }));

function script(
  body: string,
  env: Record<string, string> = {},
): { out: string; err: string; records: { n: number; s: number; r: number; m: Record<string, unknown> }[] } {
  const r = spawnSync(
    process.execPath,
    ["--input-type=module", "-e", `import { log, checkpointDir } from ${sdk};\n${body}`],
    { cwd, env: { PATH: process.env["PATH"] ?? "", ...env }, encoding: "utf8" },
  );
  expect(r.status, r.stderr).toBe(0);
  const head = `\u001esvc1:${env["SVC_METRICS_MARK"]} `;
  const records = r.stdout
    .split("\n")
    .filter((l) => l.startsWith(head))
    .map((l) => JSON.parse(l.slice(head.length)));
  return { out: r.stdout, err: r.stderr, records };
}

test("one call is one record line with the mark", () => {
  const { out, records } = script("log({ loss: 0.5, acc: 1 }, 120); log({ loss: 0.25 }); log({ loss: 0.2 })", {
    SVC_METRICS_MARK: MARK,
  });
  expect(records.map((r) => [r.n, r.s, r.r, r.m])).toEqual([
    [1, 120, 0, { loss: 0.5, acc: 1 }],
    [2, 0, 0, { loss: 0.25 }],
    [3, 1, 0, { loss: 0.2 }],
  ]);
  expect(out.split("\n").filter(Boolean)).toHaveLength(3);
});

test("values that JSON lacks travel as words, and a value that is not a number is skipped with one line each", () => {
  const { records, err } = script(
    'for (const _ of [1, 2]) log({ a: NaN, b: Infinity, c: -Infinity, d: true, e: 7n, big: 10n ** 400n, f: "x", g: null, h: [1] })',
    { SVC_METRICS_MARK: MARK },
  );
  expect(records[0]?.m).toEqual({ a: "NaN", b: "Infinity", c: "-Infinity", d: 1, e: 7, big: "Infinity" });
  expect(err.trim().split("\n")).toHaveLength(3);
});

test.each(['"loss", 0.5', "0.5", "[0.5]", "null"])("log(%s) says how to write it, in one line", (call) => {
  const { records, err } = script(`log(${call}); log({ still: 1 })`, { SVC_METRICS_MARK: MARK });
  expect(records.map((r) => r.m)).toEqual([{ still: 1 }]);
  expect(err).toMatch(/^svc\.log: the call was skipped: .*; write log\(\{ loss: 0\.5 \}\)\n$/);
});

test("an object in the values is flattened, as in Python, and one that contains itself is skipped with a line", () => {
  const { records, err } = script(
    "const loop = {}; loop.on = loop; log({ val: { loss: 1, top: { k1: 2 } }, none: {}, acc: 3, loop })",
    { SVC_METRICS_MARK: MARK },
  );
  expect(records[0]?.m).toEqual({ "val/loss": 1, "val/top/k1": 2, acc: 3 });
  expect(err).toMatch(/^svc\.log: "loop(\/on)+" is skipped: expected a number, not object\n$/);
  expect(script("log({ val: { loss: 0.5 } }, 3)").out).toBe("step 3: val/loss=0.5\n");
});

test("a large map is split into several lines of at most 4096 bytes with one n, and loses nothing", () => {
  const { out, records } = script(
    'log(Object.fromEntries(Array.from({ length: 900 }, (_, i) => ["größe/" + i, i])), 1); log({ x: 1 }, 2)',
    { SVC_METRICS_MARK: MARK },
  );
  for (const line of out.split("\n")) expect(Buffer.byteLength(line) + 1).toBeLessThanOrEqual(4096);
  expect(Object.keys(Object.assign({}, ...records.filter((r) => r.n === 1).map((r) => r.m)))).toHaveLength(900);
  expect(records.at(-1)).toMatchObject({ n: 2, s: 2, m: { x: 1 } });
});

test("only rank 0 records, unless all ranks are requested", () => {
  const { records } = script("log({ a: 1 }, 0); log({ b: 1 }, 0, true)", { SVC_METRICS_MARK: MARK, RANK: "3" });
  expect(records.map((r) => [r.r, r.m])).toEqual([[3, { b: 1 }]]);
});

test("without a launcher each node records, with its number as the rank, as in Python", () => {
  const call = "log({ a: 1 }, 0)";
  const on = (env: Record<string, string>) => script(call, { SVC_METRICS_MARK: MARK, ...env }).records.map((r) => r.r);
  expect(on({ SVC_NODE_RANK: "1" })).toEqual([1]);
  expect(on({ SVC_NODE_RANK: "1", RANK: "0" })).toEqual([0]);
  expect(on({ SVC_NODE_RANK: "1", RANK: "8" })).toEqual([]);
});

test("svc.log never throws, for any input", () => {
  const { err } = script(
    "log(null); log(undefined, 1); log({ get a() { throw new Error('no'); } }); log('abc'); console.error('alive')",
    { SVC_METRICS_MARK: MARK },
  );
  expect(err).toContain("alive");
});

test("outside of a job it prints a readable line", () => {
  expect(script("log({ loss: 0.5 }, 3)").out).toBe("step 3: loss=0.5\n");
});

test("checkpointDir is SVC_CHECKPOINT_DIR and exists", () => {
  const folder = join(cwd, "a/b");
  expect(script("console.log(checkpointDir())", { SVC_CHECKPOINT_DIR: folder }).out).toBe(`${folder}\n`);
  expect(existsSync(folder)).toBe(true);
  expect(script("console.log(checkpointDir())").out).toBe(`${join(cwd, "checkpoints-local")}\n`);
});

test("a reader that hangs costs the script one second, not one for each call", () => {
  const pipe = join(cwd, "records");
  execFileSync("mkfifo", [pipe]);
  const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { out } = script(
      `const timed = (f) => { const begun = performance.now(); f(); return performance.now() - begun; };
       const value = { ["x".repeat(450)]: 1, ["y".repeat(450)]: 1 };
       while (timed(() => log(value)) < 500);
       console.log(timed(() => { for (let n = 0; n < 20; n++) log(value); }) < 5000);`,
      { SVC_METRICS_MARK: MARK, SVC_RECORDS: pipe },
    );
    expect(out).toBe("true\n");
  } finally {
    closeSync(reader);
  }
});
