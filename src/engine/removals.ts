// Removes runs: rows, logs, metrics, checkpoints, sealed secrets, and code that no other run uses.
//
// RM3. Only an ended run is removed, and only when each of its machines is proven gone and no other live run may still
//      resume from its checkpoints.
// RM4. The removal is durable before the first file is deleted: from then on the run is unknown. After any
//      interruption, the next start continues. Every part of it is idempotent.
// RM6. A failed deletion is retried every RETRY_EVERY_MS, and by the next start. It is reported once.
// RM5. Code is deleted last, and once for all running removals: finding unused code reads every manifest.

import { rm } from "node:fs/promises";
import { asSvcError, messageOf, SvcError } from "../errors/index.ts";
import type { Removed } from "../schemas/removal.ts";
import type { Reads } from "../store/reads.ts";
import { localCalendar } from "../domain/calendar.ts";
import { CostStore } from "../store/cost-store.ts";
import { RemovalStore } from "../store/removal-store.ts";
import { isCopying } from "../store/retention-reads.ts";
import type { JobRow } from "../store/tables.ts";
import { diskUsage } from "./disk-usage.ts";
import type { Engine } from "./engine.ts";
import type { DurableLedger } from "./ledger.ts";
import type { SinkKeeper } from "./service-options.ts";
import { liveHeirs, type ResumeClaims } from "./resume-claims.ts";
import { pathsOfRun } from "../platform/home-layout.ts";

const MEASURE_EVERY_MS = 5_000;
const RETRY_EVERY_MS = 15_000;
const ROWS_AT_ONCE = 5_000;
const MEASURED_AT_ONCE = 20;

/** The retention rule that removes a run. */
export interface RemovalRule {
  /** Its JSON. */
  text: string;
  /** Why it does not apply to the run any more; null if it does. Also asked within the commit that removes the run. */
  refuses: (row: JobRow) => string | null;
}

export interface RemovalParts {
  home: string;
  engine: Engine;
  ledger: DurableLedger;
  reads: Reads;
  claims: ResumeClaims;
  sinks: Pick<SinkKeeper, "endUploads">;
  /** Closes this process's open files of the run. */
  forget: (jobId: string) => void;
  /** Deletes code that no run uses. */
  collectCode: () => Promise<void>;
  report: (line: string) => void;
}

export class Removals {
  readonly #o: RemovalParts;
  readonly #rows: RemovalStore;
  readonly #costs: CostStore;
  /** Deletions that continue after the caller has its answer. */
  #rest: Promise<void> = Promise.resolve();
  readonly #waiting = new Set<string>();
  /** Removals with failed deletions. */
  readonly #failed = new Set<string>();
  readonly #reported = new Set<string>();
  #measuring = false;

  constructor(parts: RemovalParts) {
    this.#o = parts;
    this.#rows = new RemovalStore(parts.engine.store.db);
    this.#costs = new CostStore(parts.engine.store.db);
  }

  /**
   * Resolves when the run is gone for good. Throws `job_not_found`, `job_not_removable`.
   * @param rule set if nobody asked for it
   */
  async remove(jobId: string, rule?: RemovalRule): Promise<Removed> {
    const { engine, home, sinks } = this.#o;
    this.#check(jobId, rule);
    const bytes = await diskUsage(home, jobId);
    // Before its credentials are deleted. If the run stays after all, its sinks begin these uploads anew.
    await sinks.endUploads(jobId, "all");
    await engine.commit((tx) => {
      // Another run may have started to resume from it.
      this.#check(jobId, rule);
      const label = tx.store.job(jobId)?.label ?? null;
      this.#costs.addJob(jobId, tx.at, localCalendar);
      this.#rows.begin(jobId, tx.at, rule && { rule: rule.text, label, bytes });
      tx.feed(jobId, "job.removed", rule ? { by: "retention rule" } : {});
    });
    await this.#finish(jobId);
    return { id: jobId, freed_bytes: bytes };
  }

  /** Finishes removals that an earlier process began. `every` repeats work until the control plane closes. */
  begin(every: (ms: number, work: () => void) => void): void {
    for (const jobId of this.#rows.open()) void this.#finish(jobId);
    every(MEASURE_EVERY_MS, () => void this.measureSome());
    every(RETRY_EVERY_MS, () => void this.retry());
  }

  /** RM6. */
  async retry(): Promise<void> {
    const again = [...this.#failed];
    this.#failed.clear();
    for (const jobId of again) await this.#finish(jobId);
  }

  /** Resolves when no removal is running. */
  async settle(): Promise<void> {
    await this.#rest;
  }

  /** Measures the disk usage of a run, once it has ended and whenever some of its files were deleted. */
  async measure(jobId: string): Promise<void> {
    const bytes = await diskUsage(this.#o.home, jobId);
    await this.#o.engine.commit(() => this.#rows.measured(jobId, bytes));
  }

  /** Measures a few ended runs that were not measured yet. Never rejects: an unknown size is shown as unknown. */
  async measureSome(): Promise<void> {
    if (this.#measuring) return;
    this.#measuring = true;
    try {
      for (const jobId of this.#rows.unmeasured(MEASURED_AT_ONCE)) await this.measure(jobId);
    } catch (e) {
      this.#o.report(`The size of a run could not be measured: ${messageOf(asSvcError(e))}`);
    } finally {
      this.#measuring = false;
    }
  }

  /** RM3. */
  #check(jobId: string, rule?: RemovalRule): void {
    const { engine, ledger, claims } = this.#o;
    const refuse = (why: string): never => {
      throw new SvcError("job_not_removable", { id: jobId, why });
    };
    const row = engine.store.job(jobId);
    if (!row) throw new SvcError("job_not_found", { id: jobId });
    if (row.state !== "terminal") refuse("it has not ended");
    const owed = ledger.owed().find((machine) => machine.job_id === jobId);
    if (owed) refuse(`its machine ${owed.name} is not proven gone and may still cost money`);
    const [heir] = liveHeirs(engine.store, jobId);
    if (heir !== undefined) refuse(`the run ${heir}, which has not ended, resumes from it`);
    if (claims.isClaimed(jobId)) refuse("a run that is being submitted resumes from it");
    const sink = this.#o.reads.sinks(jobId).find(isCopying);
    const against = rule?.refuses(row) ?? null;
    if (against !== null) refuse(against);
    if (sink) refuse(`${sink.waiting.files} of its files are still being copied to ${sink.url}`);
  }

  #failedFor(jobIds: readonly string[], what: string, e: unknown): void {
    for (const jobId of jobIds) this.#failed.add(jobId);
    if (jobIds.every((jobId) => this.#reported.has(jobId))) return;
    for (const jobId of jobIds) this.#reported.add(jobId);
    this.#o.report(`${what}: ${messageOf(asSvcError(e))} svc tries again until it succeeds.`);
  }

  /** RM4. Never rejects. */
  async #finish(jobId: string): Promise<void> {
    const { engine, home } = this.#o;
    try {
      this.#o.forget(jobId);
      for (const path of pathsOfRun(home, jobId)) await rm(path, { recursive: true, force: true });
      while (await engine.commit(() => this.#rows.dropSome(jobId, ROWS_AT_ONCE)));
    } catch (e) {
      this.#failedFor([jobId], `The removal of the run ${jobId} could not be finished`, e);
      return;
    }
    this.#waiting.add(jobId);
    this.#rest = this.#rest.then(() => this.#collect());
  }

  /** RM5. */
  async #collect(): Promise<void> {
    const done = [...this.#waiting];
    this.#waiting.clear();
    if (done.length === 0) return;
    try {
      await this.#o.collectCode();
      await this.#o.engine.commit((tx) => {
        for (const jobId of done) this.#rows.end(jobId, tx.at);
      });
    } catch (e) {
      this.#failedFor(done, "Code of removed runs could not be deleted", e);
    }
  }
}
