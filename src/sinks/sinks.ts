// Runs all sinks: wakes them, judges failures, and decides when to stop retrying.
//
// L1. A sink never delays a run or a machine: it copies only files that were already downloaded.
// L2. While a run is active its sinks are retried for ever; after its end, for PATIENCE_MS beyond the last success. The
//     run's record then reports the rest, and a request of the user resumes it.
// L3. Sinks are rows of the transaction that makes their job. A starting control plane resumes the open ones, of active
//     and of ended runs.
// L4. At the graceful shutdown of a control plane, copies of ended runs get a little time, as long as nothing fails.

import { rmSync } from "node:fs";
import { asSvcError, SvcError } from "../errors/index.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { seal, unseal } from "../secrets/sealed.ts";
import type { SinkKey } from "../store/sink-store.ts";
import type { SinkRow } from "../store/tables.ts";
import { SinkCopier, type Passed } from "./copier.ts";
import type { SinkPorts, SinkTransaction } from "./ports.ts";
import { accessOf, givenByEnvironment } from "./sink-access.ts";
import { homeLayout } from "../platform/home-layout.ts";

const DELAY_MS_MIN = 1_000;
const DELAY_MS_MAX = 5 * 60_000;
export const PATIENCE_MS = 24 * 3_600_000;
/** Files often arrive in groups, and a store accepts one list a second. */
const GATHER_MS = 1_000;
/** Consecutive failures before the feed reports them. */
const TOLD_AFTER = 3;
/** Limit for the first write; after it the run is accepted without an answer. */
const CHECK_MS = 10_000;

interface Runner {
  readonly copier: SinkCopier;
  /** Ends the current wait, if new work may end it. */
  wake: (() => void) | null;
  /** Ends any wait. */
  hurry: (() => void) | null;
  /** New work arrived during a pass. */
  asked: boolean;
  failing: boolean;
  readonly ended: Promise<void>;
}

const nameOf = ({ job_id, sink }: SinkKey): string => `${job_id} ${sink}`;

export class SinkSet {
  readonly #o: SinkPorts;
  readonly #startedAt: number;
  readonly #stop = new AbortController();
  readonly #runners = new Map<string, Runner>();
  /**
   * Number of sinks of each job that may have something to copy. Log lines arrive by the thousand, mostly for jobs
   * without sinks.
   */
  readonly #jobs = new Map<string, number>();
  /** When a retry was requested. */
  readonly #askedAt = new Map<string, number>();
  #active = false;
  /** Sinks whose first list was written before their job was created. */
  readonly #begun = new Map<string, string>();
  readonly #quiet = new Set<() => void>();

  constructor(ports: SinkPorts) {
    this.#o = ports;
    this.#startedAt = ports.clock.now();
  }

  /**
   * Checks before a job is created: credentials exist, and the sink is writable. A store that cannot be
   * reached now does not refuse the job. Values from the environment are sealed, for a control plane with another environment. Throws the
   * problem, naming the field.
   */
  async check(spec: RunSpec, jobId: string): Promise<void> {
    const { home, env, key } = this.#o;
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(CHECK_MS)]);
    const check = async (sink: number): Promise<void> => {
      try {
        accessOf(spec.sinks[sink]!, { home, env, sealed: [] });
        seal(
          homeLayout.sinkSecrets(home, jobId),
          key,
          givenByEnvironment(spec.sinks.slice(sink, sink + 1), { home, env }),
        );
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
      rmSync(homeLayout.sinkSecrets(home, jobId), { force: true });
      throw one.reason;
    }
  }

  /** L3: called within the transaction that creates the job. */
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

  /** L3: resumes the open sinks. */
  begin(): void {
    this.#active = true;
    for (const key of this.#o.rows.open()) {
      this.#jobs.set(key.job_id, this.#o.job(key.job_id)?.spec.sinks.length ?? 0);
      this.#run(key);
    }
  }

  /** Reports a change of the job: its creation, a checkpoint, a log line, its end. */
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

  /** Retries failed copies at once, including those that were given up. Throws `sinks_none`. */
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

  /** The checkpoint files that sinks of the job have still to copy, and where to. */
  uncopied(jobId: string): { path: string; url: string }[] {
    const sinks = this.#o.job(jobId)?.spec.sinks ?? [];
    return this.#o.rows
      .ofJob(jobId)
      .filter(({ sink, state }) => state === "open" && sinks[sink]?.what.includes("checkpoints"))
      .flatMap((key) => this.#o.rows.uncopied(key).map(({ path }) => ({ path, url: sinks[key.sink]?.url ?? "" })));
  }

  /**
   * Ends unfinished uploads of the job at its stores, where their parts cost money: all of them, or those of checkpoints that it has no
   * more. Takes at most CHECK_MS, and never rejects: what could not be ended is reported.
   */
  async endUploads(jobId: string, which: "all" | "dropped"): Promise<void> {
    const sinks = this.#o.job(jobId)?.spec.sinks ?? [];
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(CHECK_MS)]);
    const end = async (row: SinkRow): Promise<void> => {
      const sink = sinks[row.sink];
      // An open sink does it in its next pass.
      if (!sink || (which === "dropped" && row.state === "open")) return;
      const copier = new SinkCopier({ job_id: jobId, sink: row.sink }, sink, this.#o);
      await copier.endUploads(which, signal).catch((e: unknown) => {
        const why = asSvcError(e).message;
        this.#o.report(
          `svc could not abort unfinished uploads of the run ${jobId} to ${sink.url}: ${why} Their parts cost money until you abort them, or a lifecycle rule of the bucket does. For svc to abort uploads, the key needs s3:AbortMultipartUpload.`,
        );
      });
    };
    await Promise.all(this.#o.rows.ofJob(jobId).map(end));
  }

  /** The secrets of a run's sinks: its log must not repeat them. */
  secretsOf(jobId: string, spec: RunSpec): string[] {
    if (spec.sinks.length === 0) return [];
    const sealed = unseal(homeLayout.sinkSecrets(this.#o.home, jobId), this.#o.key);
    return spec.sinks.flatMap((sink) => {
      try {
        return accessOf(sink, { ...this.#o, sealed }).secrets;
      } catch {
        return []; // no longer available
      }
    });
  }

  /** L4. */
  async settle(deadlineMs: number): Promise<void> {
    const end = this.#o.clock.monotonic() + deadlineMs;
    const busy = (): boolean =>
      [...this.#runners].some(([name, r]) => !r.failing && this.#o.job(name.split(" ")[0] ?? "")?.over === true);
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

  /** The next control plane resumes unfinished copies. */
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

  /** Waits until there is something new, and at least long enough for a group of files to arrive. */
  async #rest(key: SinkKey, runner: Runner, { logDueMs }: Passed): Promise<void> {
    if (this.#o.job(key.job_id)?.over) return; // it ended meanwhile: the last files are copied at once
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

  /** Resolves with the wait before the next try; null if there will be none. */
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
    // A full disk cannot store this; the retry happens anyway.
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
    if (rows.every((row) => row.state === "done"))
      rmSync(homeLayout.sinkSecrets(this.#o.home, key.job_id), { force: true });
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
