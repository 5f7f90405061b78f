// Metrics on their way into the store: parsed from a log and appended as by a running step, compared with bare inserts
// of the same points; and end to end, from a script that calls `svc.log` as fast as it can.

import Database from "better-sqlite3";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseLog, type LogRecord } from "../src/domain/log-stream.ts";
import { Redactor } from "../src/domain/redaction.ts";
import { DurableStorySink } from "../src/engine/run-log-writer.ts";
import { engineOf, instantSteps } from "../scripts/lib/instant-engine.ts";
import { newJobId, openHome, withFolder } from "./lib/home.ts";
import { rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served } from "./lib/served.ts";

const ROUNDS = 3;
const POINTS = 600_000;
const NAMES = Array.from({ length: 10 }, (_, i) => `layer${i}/grad_norm`);
/** Size of one pull of a busy run. */
const PART_BYTES = 1 << 20;
const MARK = "0123456789abcdef01234567";
const MIN = 50_000;

const SCRIPT = `import svc
names = ${JSON.stringify(NAMES)}
for step in range(${POINTS / NAMES.length}):
    svc.log({name: (step * 7919 + i) % 1000 / 1000 for i, name in enumerate(names)}, step=step)
`;

function logOf(points: number): Buffer {
  const lines: string[] = [];
  for (let n = 0; n < points / NAMES.length; n++) {
    const values = Object.fromEntries(NAMES.map((name, i) => [name, ((n * 7919 + i) % 1000) / 1000]));
    lines.push(`\x1esvc1:${MARK} ${JSON.stringify({ k: "m", n, s: n, t: 1.8e9 + n / 100, r: 0, m: values })}\n`);
  }
  return Buffer.from(lines.join(""));
}

/**
 * Works like the step that follows a run: reads a part, parses it, appends it, and reads on after the consumed bytes.
 */
async function ours(home: string, log: Buffer): Promise<number> {
  const store = await openHome(home);
  const engine = engineOf(store, instantSteps(), () => {});
  const sink = new DurableStorySink({ engine, home, hint: () => {} });
  const redactor = new Redactor([MARK]);
  const jobId = newJobId();
  const start = performance.now();
  for (let at = 0; at < log.length;) {
    const bytes = log.subarray(at, at + PART_BYTES);
    const { text, records, consumed } = parseLog(bytes, {
      mark: MARK,
      redactor,
      final: at + bytes.length >= log.length,
    });
    const [from, to] = [at, at + consumed].map((sourceOffset) => ({ sourceOffset, samplesOffset: 0 }));
    if (!from || !to) throw new Error("unreachable");
    const times = [{ offset: at, atMs: Date.now() }];
    await sink.append({ jobId, node: 0, stream: "run", from, to, text, records, samples: [], times });
    at += consumed;
  }
  const seconds = (performance.now() - start) / 1000;
  await engine.stop();
  count(store.db);
  store.db.close();
  return POINTS / seconds;
}

/** The points are parsed beforehand; the same number of them goes into one transaction. */
async function bare(home: string, log: Buffer): Promise<number> {
  const { records } = parseLog(log, { mark: MARK, redactor: new Redactor([MARK]), final: true });
  const store = await openHome(home);
  const { db } = store;
  for (const name of NAMES) db.prepare("INSERT INTO series (job_id, name) VALUES ('j', ?)").run(name);
  const insert = db.prepare("INSERT INTO point (series_id, i, step, time, value, rank) VALUES (?, ?, ?, ?, ?, ?)");
  const perPart = Math.ceil(records.length / (log.length / PART_BYTES));
  const start = performance.now();
  for (let at = 0; at < records.length; at += perPart) {
    db.exec("BEGIN IMMEDIATE");
    for (const record of records.slice(at, at + perPart)) insertAll(insert, record);
    db.exec("COMMIT");
  }
  const seconds = (performance.now() - start) / 1000;
  count(db);
  db.close();
  return POINTS / seconds;
}

function insertAll(insert: Database.Statement, record: LogRecord): void {
  if (record.kind !== "metrics") return;
  record.values.forEach(([, value], i) => insert.run(i + 1, record.n, record.step, record.time, value, record.rank));
}

function count(db: Database.Database): void {
  const n = db.prepare("SELECT count(*) FROM point WHERE value IS NOT NULL").pluck().get();
  if (n !== POINTS) throw new Error(`${String(n)} points are stored, not ${POINTS}`);
}

async function endToEnd(folder: string): Promise<number> {
  const [home, project] = [join(folder, "served"), join(folder, "project")];
  mkdirSync(project);
  writeFileSync(join(project, "train.py"), SCRIPT);
  const served = await Served.start(home, project);
  try {
    const start = performance.now();
    const id = await served.submit({ entrypoint: "train.py" });
    const status = await served.ended(id);
    const seconds = (performance.now() - start) / 1000;
    if (status !== "succeeded") throw new Error(`the run is ${status}`);
    const db = new Database(join(home, "svc.db"), { readonly: true });
    // The machine's own samples are separate series.
    const n = db
      .prepare("SELECT count(*) FROM point JOIN series ON series.id = series_id WHERE name NOT LIKE 'system/%'")
      .pluck()
      .get();
    db.close();
    if (n !== POINTS) throw new Error(`${String(n)} points came home, not ${POINTS}`);
    return POINTS / seconds;
  } finally {
    await served.stop();
  }
}

async function measure(): Promise<Row[]> {
  const log = logOf(POINTS);
  const sink: number[] = [];
  const plain: number[] = [];
  const whole: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await withFolder(async (folder) => {
      plain.push(await bare(join(folder, "bare"), log));
      sink.push(await ours(join(folder, "home"), log));
      whole.push(await endToEnd(folder));
    });
  }
  return [
    rowOf({
      what: "metrics: parsed and stored",
      unit: "points/s",
      values: sink,
      baseline: plain,
      target: "> 50,000",
      met: (f) => f > MIN,
    }),
    rowOf({
      what: "metrics: from svc.log to the store, whole run",
      unit: "points/s",
      values: whole,
      target: "> 50,000",
      met: (f) => f > MIN,
    }),
  ];
}

export const metrics: Bench = { name: "metrics", about: "points of metrics", measure };
