// The life of all sinks: who is woken when, what a failure means, and when enough was tried.
//
// L1. A sink never holds a run or a machine: what is copied has come home before.
// L2. While a run goes on its sinks are tried for ever; after its end, for PATIENCE_MS beyond the last success. What then is left
//     is said in the run's record, and taken up again when somebody asks.
// L3. Sinks are rows of the transaction that makes their job. A control plane that starts takes up those that are open, of runs
//     that live and of runs that are over.
// L4. At the orderly end of a control plane, copies of runs that are over get a little time, as long as nothing fails.

import { rmSync } from "node:fs";
import { asSvcError, SvcError } from "../errors/index.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { seal, unseal } from "../secrets/sealed.ts";
import type { SinkKey } from "../store/sink-store.ts";
import type { SinkRow } from "../store/tables.ts";
import { SinkCopier, sealedFile, type Passed } from "./copier.ts";
import type { SinkPorts, SinkTransaction } from "./ports.ts";
import { accessOf, givenByEnvironment } from "./sink-access.ts";

const DELAY_MS_MIN = 1_000;
const DELAY_MS_MAX = 5 * 60_000;
export const PATIENCE_MS = 24 * 3_600_000;
/** Files often come in groups; and a store takes one list a second. */
const GATHER_MS = 1_000;
/** Failures in a row before the feed tells of them. */
const TOLD_AFTER = 3;
/** What the first write may take before the run is accepted without its answer. */
const CHECK_MS = 10_000;

interface Runner {
  readonly copier: SinkCopier;
  /** Resolves the wait that is under way, if it is one that new work ends. */
  wake: (() => void) | null;
  /** Ends any wait. */
  hurry: (() => void) | null;
  /** Something came while a pass was under way. */
  asked: boolean;
  failing: boolean;
  readonly ended: Promise<void>;
}

const nameOf = ({ job_id, sink }: SinkKey): string => `${job_id} ${sink}`;

export class Sinks {
  readonly #o: SinkPorts;
  readonly #startedAt: number;
  readonly #stop = new AbortController();
  readonly #runners = new Map<string, Runner>();
  /** Of jobs that may have something to copy: how many sinks. Log lines come by the thousand, mostly of jobs without any. */
  readonly #jobs = new Map<string, number>();
  /** When somebody asked to try again. */
  readonly #askedAt = new Map<string, number>();
  #active = false;
  /** Sinks whose first list was written before their job was made. */
  readonly #begun = new Map<string, string>();
  readonly #quiet = new Set<() => void>();

  constructor(ports: SinkPorts) {
    this.#o = ports;
    this.#startedAt = ports.clock.now();
  }

  /**
   * Before a job is made: credentials are there, and something can be written. A store that cannot be reached now refuses
   * nothing. What the environment gave is sealed, for a control plane that has another. Throws what is wrong, naming the field.
   */
  async check(spec: RunSpec, jobId: string): Promise<void> {
    const { home, env, key } = this.#o;
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(CHECK_MS)]);
    const check = async (sink: number): Promise<void> => {
      try {
        accessOf(spec.sinks[sink]!, { home, env, sealed: [] });
        seal(sealedFile(home, jobId), key, givenByEnvironment(spec.sinks.slice(sink, sink + 1), { home, env }));
        const copier = new SinkCopier({ job_id: jobId, sink }, spec.sinks[sink]!, this.#o);
        this.#begun.set(nameOf({ job_id: jobId, sink }), await copier.begin(signal));
      } catch (e) {
        const error = asSvcError(e);
        if (signal.aborted || error.code === "sink_unreachable" || error.code === "sink_mismatch") return;
        const { message } = error;
        throw new SvcError(error.code, error.data, { cause: e, errors: [{ field: `spec.sinks[${sink}]`, message }] });
      }
    };
    const checks = await Promise.allSettled(spec.sinks.map((_, sink) => check(sink)));
    for (const one of checks) {
      if (one.status === "fulfilled") continue;
      rmSync(sealedFile(home, jobId), { force: true });
      throw one.reason;
    }
  }

  /** L3: called within the transaction that makes the job. */
  enter(jobId: string, spec: RunSpec): void {
    if (spec.sinks.length > 0) this.#jobs.set(jobId, spec.sinks.length);
    for (const sink of spec.sinks.keys()) {
      const key = { job_id: jobId, sink };
      this.#o.rows.insert(key);
      const list = this.#begun.get(nameOf(key));
      if (list !== undefined) this.#o.rows.setManifest(key, list);
      this.#begun.delete(nameOf(key));
    }
  }

  /** L3: takes up what is open. */
  begin(): void {
    this.#active = true;
    for (const key of this.#o.rows.open()) {
      this.#jobs.set(key.job_id, this.#o.job(key.job_id)?.spec.sinks.length ?? 0);
      this.#run(key);
    }
  }

  /** Something of the job is new: its making, a checkpoint, a log line, its end. */
  changed(jobId: string): void {
    const count = this.#jobs.get(jobId) ?? 0;
    for (let sink = 0; sink < count; sink++) {
      const key = { job_id: jobId, sink };
      const runner = this.#runners.get(nameOf(key));
      if (runner) {
        runner.asked = true;
        runner.wake?.();
      } else if (this.#o.rows.get(key)?.state === "open") this.#run(key);
    }
  }

  /** Tries at once what failed, also what was given up. Throws `sinks_none`. */
  async retry(jobId: string): Promise<void> {
    const rows = this.#o.rows.ofJob(jobId);
    if (rows.length === 0) throw new SvcError("sinks_none", { job: jobId });
    const given = rows.filter((row) => row.state === "gave_up");
    if (given.length > 0)
      await this.#o.commit(() => {
        for (const row of given) this.#o.rows.update({ ...row, state: "open", failures: 0, next_at: null });
      });
    this.#jobs.set(jobId, rows.length);
    for (const row of rows) {
      this.#askedAt.set(nameOf(row), this.#o.clock.now());
      const runner = this.#runners.get(nameOf(row));
      if (runner) runner.hurry?.();
      else if (row.state !== "done") this.#run(row);
    }
  }

  /** What the sinks of a run were given and is secret: its log must not repeat it. */
  secretsOf(jobId: string, spec: RunSpec): string[] {
    if (spec.sinks.length === 0) return [];
    const sealed = unseal(sealedFile(this.#o.home, jobId), this.#o.key);
    return spec.sinks.flatMap((sink) => {
      try {
        return accessOf(sink, { ...this.#o, sealed }).secrets;
      } catch {
        return []; // not to be found any more
      }
    });
  }

  /** L4. */
  async settle(deadlineMs: number): Promise<void> {
    const end = this.#o.clock.monotonic() + deadlineMs;
    const busy = (): boolean =>
      [...this.#runners].some(([name, r]) => !r.failing && this.#o.job(name.split(" ")[0]!)?.over === true);
    while (busy() && this.#o.clock.monotonic() < end)
      await new Promise<void>((resolve) => {
        const done = (): void => {
          timer.cancel();
          this.#quiet.delete(done);
          resolve();
        };
        const timer = this.#o.clock.setTimer(Math.max(0, end - this.#o.clock.monotonic()), done);
        this.#quiet.add(done);
      });
  }

  /** What is unfinished is gone on with by the next control plane. */
  async stop(): Promise<void> {
    this.#stop.abort(new SvcError("shutting_down", {}));
    const runners = [...this.#runners.values()];
    for (const runner of runners) runner.hurry?.();
    await Promise.all(runners.map((r) => r.ended));
  }

  // One sink

  #run(key: SinkKey): void {
    const sink = this.#o.job(key.job_id)?.spec.sinks[key.sink];
    const name = nameOf(key);
    if (!sink || !this.#active || this.#runners.has(name) || this.#stop.signal.aborted) return;
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const copier = new SinkCopier({ job_id: key.job_id, sink: key.sink }, sink, this.#o);
    const runner: Runner = { copier, wake: null, hurry: null, asked: false, failing: false, ended };
    this.#runners.set(name, runner);
    void this.#drive(copier.key, runner)
      .catch((e: unknown) => this.#o.report(`The sink ${sink.url} of job ${key.job_id}: ${asSvcError(e).message}`))
      .finally(() => {
        copier.close();
        this.#runners.delete(name);
        resolve();
        this.#tell();
      });
  }

  async #drive(key: SinkKey, runner: Runner): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      runner.asked = false;
      try {
        const passed = await runner.copier.pass(signal);
        if (passed.finished) return await this.#finish(key, "done");
        await this.#succeeded(key);
        runner.failing = false;
        await this.#rest(key, runner, passed);
      } catch (e) {
        if (signal.aborted) return;
        runner.failing = true;
        this.#tell();
        const delayMs = await this.#failed(key, asSvcError(e));
        if (delayMs === null) return;
        await this.#wait(runner, delayMs, false);
      }
    }
  }

  /** Until there is something new; and at least until what comes together has come. */
  async #rest(key: SinkKey, runner: Runner, { logDueMs }: Passed): Promise<void> {
    if (this.#o.job(key.job_id)?.over) return; // it ended meanwhile: what came last is copied at once
    await this.#wait(runner, GATHER_MS, false);
    if (!runner.asked) await this.#wait(runner, logDueMs, true);
  }

  #wait(runner: Runner, ms: number | null, wakes: boolean): Promise<void> {
    return new Promise((resolve) => {
      if (this.#stop.signal.aborted) return resolve();
      const timer = ms === null ? null : this.#o.clock.setTimer(ms, () => done());
      timer?.unref?.();
      const done = (): void => {
        timer?.cancel();
        runner.wake = runner.hurry = null;
        resolve();
      };
      runner.hurry = done;
      if (wakes) runner.wake = done;
    });
  }

  async #succeeded(key: SinkKey): Promise<void> {
    const row = this.#o.rows.get(key);
    if (!row || row.failures === 0) return;
    await this.#o.commit((tx) => {
      this.#o.rows.update({ ...key, state: "open", failures: 0, error: null, next_at: null });
      if (row.failures >= TOLD_AFTER) tx.feed(key.job_id, "sink.recovered", { sink: key.sink, url: this.#url(key) });
    });
  }

  /** Resolves with the wait before the next try; null where there is none any more. */
  async #failed(key: SinkKey, error: SvcError): Promise<number | null> {
    const now = this.#o.clock.now();
    const row = this.#o.rows.get(key);
    if (!row) return null;
    if (this.#isOver(key, row, now)) {
      await this.#finish(key, "gave_up", error);
      return null;
    }
    const failures = row.failures + 1;
    const delayMs = Math.min(DELAY_MS_MAX, DELAY_MS_MIN * 2 ** Math.min(20, failures - 1));
    const told = error.toJobError();
    const next_at = now + delayMs;
    // A disk that is full cannot keep it; the next try comes all the same.
    await this.#o
      .commit((tx) => {
        this.#o.rows.update({ ...key, state: "open", failures, error: JSON.stringify(told), next_at });
        if (failures === TOLD_AFTER) this.#feed(tx, key, "sink.failing", { error: told });
      })
      .catch(() => {});
    return delayMs;
  }

  /** L2. */
  #isOver(key: SinkKey, row: SinkRow, now: number): boolean {
    const job = this.#o.job(key.job_id);
    if (!job) return true;
    const since = Math.max(job.endedAt ?? 0, row.copied_at ?? 0, this.#startedAt, this.#askedAt.get(nameOf(key)) ?? 0);
    return job.over && now - since > PATIENCE_MS;
  }

  async #finish(key: SinkKey, state: "done" | "gave_up", error?: SvcError): Promise<void> {
    const told = error === undefined ? null : error.toJobError();
    await this.#o.commit((tx) => {
      this.#o.rows.update({ ...key, state, failures: 0, error: told && JSON.stringify(told), next_at: null });
      this.#feed(tx, key, `sink.${state}`, told ? { error: told } : {});
    });
    const rows = this.#o.rows.ofJob(key.job_id);
    if (rows.every((row) => row.state !== "open")) this.#jobs.delete(key.job_id);
    if (rows.every((row) => row.state === "done")) rmSync(sealedFile(this.#o.home, key.job_id), { force: true });
  }

  #feed(tx: SinkTransaction, key: SinkKey, type: string, data: Record<string, unknown>): void {
    tx.feed(key.job_id, type, { sink: key.sink, url: this.#url(key), ...data });
  }

  #url(key: SinkKey): string {
    return this.#o.job(key.job_id)?.spec.sinks[key.sink]?.url ?? "";
  }

  #tell(): void {
    for (const done of this.#quiet) done();
  }
}
