// The engine's own speed: whole jobs of eight steps without work, one at a time and fifty at once, each step a durable
// commit; compared with bare statements that write the same rows into a new store.

import { join } from "node:path";
import { recording, replay, type Transactions } from "./lib/bare.ts";
import { engineOf, instantSteps } from "../scripts/lib/instant-engine.ts";
import type { Sqlite } from "../src/store/database.ts";
import { newJob, newJobId, openHome, withFolder } from "./lib/home.ts";
import { median, rowOf, type Bench, type Row } from "./lib/measure.ts";

/** 250 jobs of 8 steps are the 2,000 steps of "10 steps x 200 runs". */
const JOBS = 250;
const STEPS = 8;
const ROUNDS = 7;
/** Rounds before the first that counts: a control plane runs for days, and V8 compiles the engine's code for its first seconds. */
const WARM_UPS = 5;

interface Round {
  stepsPerSecond: number;
  /** The time of each step, from its start to the start of the next: settle, decide, commit, start. */
  stepMs: number[];
}

/** @param watch receives the connection before any statement is prepared on it. */
async function drive(home: string, atOnce: number, watch?: (db: Sqlite) => void): Promise<Round> {
  const store = await openHome(home, watch);
  const stepMs: number[] = [];
  const began = new Map<string, number>();
  const over = new Map<string, () => void>();
  const lap = (jobId: string): void => {
    const now = performance.now();
    const before = began.get(jobId);
    if (before !== undefined) stepMs.push(now - before);
    began.set(jobId, now);
  };
  const engine = engineOf(store, instantSteps({ begun: lap }), (jobId) => {
    lap(jobId);
    over.get(jobId)?.();
  });
  const waiting = Array.from({ length: JOBS }, () => newJobId());
  const worker = async (): Promise<void> => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      const ended = new Promise<void>((resolve) => over.set(id, resolve));
      await engine.create(newJob(id));
      await ended;
    }
  };
  const start = performance.now();
  await Promise.all(Array.from({ length: atOnce }, worker));
  const seconds = (performance.now() - start) / 1000;
  if (stepMs.length !== JOBS * STEPS) throw new Error(`${stepMs.length} steps were taken, not ${JOBS * STEPS}`);
  await engine.stop();
  store.db.close();
  return { stepsPerSecond: (JOBS * STEPS) / seconds, stepMs };
}

/** One round writes its statements down for the bare way; it does not count, because that takes time and memory, too. */
async function record(home: string, atOnce: number): Promise<Transactions> {
  let transactions: Transactions = [];
  await drive(home, atOnce, (db) => (transactions = recording(db)));
  return transactions;
}

async function bare(home: string, transactions: Transactions): Promise<number[]> {
  const store = await openHome(home);
  const ms = replay(store.db, transactions);
  const states = store.db.prepare("SELECT count(*) FROM job WHERE state = 'terminal'").pluck().get();
  if (states !== JOBS) throw new Error(`the bare statements led to ${String(states)} jobs that are over, not ${JOBS}`);
  store.db.close();
  return ms;
}

const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);

async function measure(): Promise<Row[]> {
  const rows: Row[] = [];
  const cases = [
    { atOnce: 1, share: 0.8 },
    { atOnce: 50, share: 0.6 },
  ];
  for (const { atOnce, share } of cases) {
    const speeds: number[] = [];
    const bareSpeeds: number[] = [];
    const stepMedians: number[] = [];
    const bareMedians: number[] = [];
    await withFolder(async (first) => {
      const transactions = await record(first, atOnce);
      for (let round = -WARM_UPS; round < ROUNDS; round++) {
        await withFolder(async (folder) => {
          const ours = await drive(join(folder, "engine"), atOnce);
          const theirs = await bare(join(folder, "bare"), transactions);
          if (round < 0) return;
          speeds.push(ours.stepsPerSecond);
          bareSpeeds.push((JOBS * STEPS) / (sum(theirs) / 1000));
          stepMedians.push(median(ours.stepMs));
          bareMedians.push(median(theirs));
        });
      }
    });
    if (atOnce === 1) {
      rows.push(
        rowOf({
          what: "durable commit of one transition, median",
          unit: "ms",
          values: stepMedians,
          baseline: bareMedians,
          target: "<= 1.4x of bare statements",
          met: (f, b) => f <= 1.4 * b,
        }),
      );
    }
    rows.push(
      rowOf({
        what: `steps a second, ${atOnce} ${atOnce === 1 ? "job" : "jobs"} at once`,
        unit: "/s",
        values: speeds,
        baseline: bareSpeeds,
        target: `>= ${share}x of bare statements`,
        met: (f, b) => f >= share * b,
      }),
    );
  }
  return rows;
}

export const commits: Bench = { name: "commits", about: "the engine's durable commits", measure };
