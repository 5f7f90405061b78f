// Reads a home with hand-written SQL: every `svc jobs` runs this, and must load neither a query builder nor a schema
// library. Works with and without a running control plane.

import { runsHere, THIS_COMPUTER } from "../providers/descriptors.ts";
import type Database from "better-sqlite3";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { downsample } from "../domain/downsample.ts";
import { Redactor } from "../domain/redaction.ts";
import { tailOffset } from "../domain/log-lines.ts";
import { MATCHES_SHOWN } from "../errors/catalogue.ts";
import { isDiskFull, messageOf, SvcError } from "../errors/index.ts";
import type {
  CheckpointFile,
  CodeSnapshot,
  FeedEvent,
  JobRecord,
  JobsFilter,
  JobsPage,
  JobStatus,
  JobsQuery,
  LedgerMachine,
  MetricPoint,
  Metrics,
  MetricsQuery,
  Timeline,
} from "../schemas/job.ts";
import type { Placements } from "../schemas/placement.ts";
import type { StartTimes } from "../schemas/plan.ts";
import type { SeriesColumns, SeriesList } from "../schemas/series.ts";
import type { CostReport, CostsQuery, Receipt } from "../schemas/costs.ts";
import type { HostStats } from "../schemas/hosts.ts";
import type { HomeLimits } from "../schemas/limits.ts";
import type { SinkStatus } from "../schemas/sink-status.ts";
import type { All, AttemptRow, EffectRow, JobRow, JournalRow, MachineRow } from "./tables.ts";
import { jobRecordOf, ledgerMachineOf, leftOutNote, timelineStepOf, type PlacementSummary } from "./records.ts";
import type { Reads, ShownSecrets } from "./reads.ts";
import { removedAt, removedLike } from "./removal-reads.ts";
import { readNamedSeries, readSeriesNames, readSeriesShape } from "./summary-reads.ts";
import { whereOf } from "./list-reads.ts";
import { finite, readSeriesList, readSeriesPoints, type SeriesPlace } from "./series-reads.ts";
import { SCHEMAS } from "./schemas.ts";
import { sqlite } from "./sqlite.ts";
import { activeNote } from "./note-reads.ts";
import {
  belongsTo,
  summarizePlacements,
  placementsBySeq,
  readPlacements,
  readRegions,
  readStartTimes,
} from "./placement-reads.ts";
import { localCalendar } from "../domain/calendar.ts";
import { readCosts, readReceipt } from "./cost-reads.ts";
import { readHomeLimits } from "./limit-reads.ts";
import { readHostStats } from "./host-reads.ts";
import { readOldRuns, readRetention } from "./retention-reads.ts";
import { readSinks, sinkNote } from "./sink-reads.ts";
import { readStoredLog } from "./stored-log.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { homeLayout, snapshotFile } from "../platform/home-layout.ts";
import { storedLeftOut } from "./stored-json.ts";

type Sqlite = Database.Database;

/** Maximum of points of one series in memory to choose from. */
const SERIES_READ_MAX = 2_000_000;

interface PointRow {
  step: number;
  time: number;
  value: number | null;
  rank: number;
}

const NOTHING_SECRET = new Redactor([]);
const NO_SECRETS: ShownSecrets = { redactor: () => NOTHING_SECRET, unseal: (record) => record };

export class StoreReads implements Reads {
  readonly #db: Sqlite;
  readonly #home: string;
  readonly #now: () => number;
  readonly #secrets: ShownSecrets;
  readonly #statements = new Map<string, Database.Statement>();

  constructor(db: Sqlite, home: string, now: () => number = Date.now, secrets: ShownSecrets = NO_SECRETS) {
    this.#db = db;
    this.#home = home;
    this.#now = now;
    this.#secrets = secrets;
  }

  #q(sql: string): Database.Statement {
    let statement = this.#statements.get(sql);
    if (!statement) this.#statements.set(sql, (statement = this.#db.prepare(sql)));
    return statement;
  }
  #all<Row>(sql: string, ...args: unknown[]): Row[] {
    return this.#q(sql).all(...args) as Row[];
  }
  readonly #select: All = (sql, ...args) => this.#all(sql, ...args);
  #get<Row>(sql: string, ...args: unknown[]): Row | undefined {
    return this.#q(sql).get(...args) as Row | undefined;
  }

  job(id: string): JobRecord | null {
    const row = this.#get<JobRow>("SELECT * FROM job WHERE id = ?", id);
    return row ? this.#recordOf(row, this.#machinesOf(id), this.#now(), summarizePlacements(this.#select, [id])) : null;
  }

  #recordOf(row: JobRow, machines: MachineRow[], now: number, placements: Map<string, PlacementSummary>): JobRecord {
    const record = jobRecordOf(row, machines, now, placements.get(row.id));
    // An active run always has something to copy: only the rest at its end is worth a note.
    if (row.state === "terminal" && record.note === null) {
      // A failure that missing files may explain is more important than pending copies.
      if (row.status === "failed" && !runsHere(row.provider) && row.left_out)
        record.note = leftOutNote(storedLeftOut(row.left_out));
      record.note ??= sinkNote(this.#sinksOf(row));
    }
    if (row.state !== "terminal") record.note ??= activeNote(this.#select, row, record.placements, now);
    record.disk_bytes ??= this.#bytesAtHome(row.id);
    return record;
  }

  /**
   * The recorded sizes of log and checkpoints: walking the files of an active run would cost more than the figure is
   * worth.
   */
  #bytesAtHome(id: string): number {
    const sql =
      "SELECT coalesce((SELECT sum(size) FROM checkpoint WHERE job_id = ?), 0) + coalesce((SELECT stored_bytes FROM log WHERE job_id = ?), 0) AS n";
    return this.#get<{ n: number }>(sql, id, id)?.n ?? 0;
  }

  #sinksOf(row: JobRow): SinkStatus[] {
    return readSinks(this.#select, row.id, specOf(row).sinks);
  }

  sinks(id: string): SinkStatus[] {
    const row = this.#get<JobRow>("SELECT * FROM job WHERE id = ?", id);
    return row ? this.#sinksOf(row) : [];
  }

  #machinesOf(id: string): MachineRow[] {
    return this.#all<MachineRow>("SELECT * FROM machine WHERE job_id = ? ORDER BY node, ordinal", id);
  }

  resolveJobId(prefix: string): string {
    // Ids begin with the time, so none will ever begin with this word again.
    const newest = prefix === "last" ? this.#get<{ id: string }>("SELECT id FROM job ORDER BY id DESC LIMIT 1") : null;
    if (newest) return newest.id;
    if (/^[a-z0-9]{1,64}$/.test(prefix)) {
      const found = this.#all<{ id: string }>(
        "SELECT id FROM job WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
        prefix,
        `${prefix}{`,
        MATCHES_SHOWN + 1,
      );
      const exact = found.find((row) => row.id === prefix) ?? (found.length === 1 ? found[0] : undefined);
      if (exact) return exact.id;
      if (found.length > 1) throw new SvcError("job_ambiguous", { id: prefix, matches: found.map((row) => row.id) });
      // Ids of one day begin alike; their ends tell them apart.
      const ending = prefix.length < 3 ? [] : this.#endingIn(prefix);
      if (ending.length > 1) throw new SvcError("job_ambiguous", { id: prefix, matches: ending });
      if (ending[0] !== undefined) return ending[0];
    }
    const removed = removedLike((sql, ...args) => this.#all(sql, ...args), prefix);
    throw removed ?? new SvcError("job_not_found", { id: prefix });
  }

  #endingIn(end: string): string[] {
    const ending = "SELECT id FROM job WHERE id LIKE ? ORDER BY id DESC LIMIT ?";
    const found = this.#all<{ id: string }>(ending, `%${end}`, MATCHES_SHOWN + 1);
    return found.map((row) => row.id);
  }

  jobs(query: JobsQuery): JobsPage {
    const { sql: where, args } = whereOf(this.#select, query);
    const sql = `SELECT * FROM job ${where} ORDER BY id DESC LIMIT ?`;
    const rows = this.#all<JobRow>(sql, ...args, query.limit + 1);
    const page = rows.slice(0, query.limit);
    const now = this.#now();
    const ids = page.map((row) => row.id);
    const machines = Map.groupBy(this.#machinesOfAll(ids), (m) => m.job_id ?? "");
    const placements = summarizePlacements(this.#select, ids);
    return {
      jobs: page.map((row) => this.#recordOf(row, machines.get(row.id) ?? [], now, placements)),
      next_cursor: rows.length > query.limit ? (page.at(-1)?.id ?? null) : null,
    };
  }

  countByStatus(filter: JobsFilter = {}): Partial<Record<JobStatus, number>> {
    const { sql: where, args } = whereOf(this.#select, filter);
    const counts = `SELECT status, count(*) AS n FROM job ${where} GROUP BY status`;
    const rows = this.#all<{ status: JobStatus; n: number }>(counts, ...args);
    return Object.fromEntries(rows.map((row) => [row.status, row.n]));
  }

  #machinesOfAll(ids: string[]): MachineRow[] {
    return this.#all<MachineRow>(
      "SELECT * FROM machine WHERE job_id IN (SELECT value FROM json_each(?)) ORDER BY job_id, node, ordinal",
      JSON.stringify(ids),
    );
  }

  timeline(id: string): Timeline {
    const effects = new Map(this.#all<EffectRow>("SELECT * FROM effect WHERE job_id = ?", id).map((e) => [e.id, e]));
    const attempts = this.#all<AttemptRow>(
      "SELECT a.* FROM attempt a JOIN effect e ON e.id = a.effect_id WHERE e.job_id = ? ORDER BY a.effect_id, a.attempt",
      id,
    );
    const journal = this.#all<JournalRow>(
      "SELECT * FROM journal WHERE job_id = ? AND (from_state IS NULL OR from_state <> to_state) ORDER BY seq",
      id,
    );
    const link = this.#get<{ data: string }>(
      "SELECT data FROM feed WHERE job_id = ? AND type = 'tracker.linked' ORDER BY seq LIMIT 1",
      id,
    );
    const placementAt = placementsBySeq(this.#select, id);
    return {
      ...(link ? { tracker_url: (JSON.parse(link.data) as { url: string }).url } : {}),
      steps: attempts.flatMap((a) => {
        const effect = effects.get(a.effect_id);
        return effect ? [timelineStepOf(effect, a, belongsTo(effect, placementAt))] : [];
      }),
      transitions: journal.map((j) => ({
        seq: j.seq,
        from: j.from_state,
        to: j.to_state,
        event: j.type,
        at: new Date(j.at).toISOString(),
        placement: j.from_state === "waiting" && j.to_state === "terminal" ? null : placementAt(j.seq),
      })),
    };
  }

  placements(id: string): Placements {
    const row = this.#get<JobRow>("SELECT * FROM job WHERE id = ?", id);
    return row
      ? readPlacements(this.#select, row, this.#machinesOf(id), this.#now())
      : { placements: [], waiting: null };
  }

  regions(ids: readonly string[]): Map<string, string> {
    return readRegions(this.#select, ids);
  }

  startTimes(provider: string, gpus: string): StartTimes | null {
    return readStartTimes(this.#select, provider, gpus);
  }

  metrics(id: string, query: MetricsQuery): Metrics {
    type Row = { id: number; name: string };
    const wanted =
      query.name === undefined
        ? this.#all<Row>("SELECT id, name FROM series WHERE job_id = ? ORDER BY name", id)
        : this.#all<Row>("SELECT id, name FROM series WHERE job_id = ? AND name = ?", id, query.name);
    // Without a prototype: a script may call its metric `__proto__`.
    const series = Object.create(null) as Metrics["series"];
    for (const s of wanted) {
      const rows = this.#points(s.id, query.since_step ?? -Infinity);
      const points = rows.map((r): MetricPoint => ({
        step: r.step,
        time: r.time,
        value: finite(r.value),
        rank: r.rank,
      }));
      series[s.name] = downsample(points, query.max_points ?? Infinity);
    }
    return { series };
  }

  /**
   * Every point if there are at most SERIES_READ_MAX. With more points, a query since a step returns the newest, and a
   * query of all returns evenly spaced ones: endless metrics of a script must not fill the memory of the control plane.
   */
  #points(series: number, since: number): PointRow[] {
    const max = SERIES_READ_MAX;
    const count = this.#pointCount(series);
    if (count > max && since === -Infinity) {
      return this.#all<PointRow>(
        "WITH RECURSIVE at(i) AS (SELECT 0 UNION ALL SELECT i + ? FROM at WHERE i + ? < ?) " +
          "SELECT step, time, value, rank FROM at CROSS JOIN point ON point.series_id = ? AND point.i = at.i ORDER BY at.i",
        Math.ceil(count / max),
        Math.ceil(count / max),
        count,
        series,
      );
    }
    return this.#all<PointRow>(
      "SELECT step, time, value, rank FROM point WHERE series_id = ? AND i >= ? AND step > ? ORDER BY i",
      series,
      Math.max(0, count - max),
      since,
    );
  }

  #pointCount(series: number): number {
    return (this.#get<{ n: number | null }>("SELECT max(i) AS n FROM point WHERE series_id = ?", series)?.n ?? -1) + 1;
  }

  seriesList(id: string): SeriesList["series"] {
    return readSeriesList(this.#select, id);
  }

  seriesPoints(id: string, places: readonly SeriesPlace[], maxPoints: number): SeriesColumns[] {
    return readSeriesPoints(this.#select, id, places, maxPoints);
  }

  readonly seriesNames: Reads["seriesNames"] = (ids, max) => readSeriesNames(this.#select, ids, max);
  readonly namedSeries: Reads["namedSeries"] = (ids, names) => readNamedSeries(this.#select, ids, names);
  readonly seriesShape: Reads["seriesShape"] = (series, from, to, samples) =>
    readSeriesShape(this.#select, series, { from, to, samples });

  logBytes(id: string): number {
    return this.#get<{ n: number }>("SELECT stored_bytes AS n FROM log WHERE job_id = ?", id)?.n ?? 0;
  }

  readLog(id: string, offset: number, max: number): Buffer {
    // Bytes after the committed length were never acknowledged and may be truncated by a recovery.
    const stored = this.logBytes(id);
    const length = Math.min(max, stored - offset);
    if (length <= 0) return Buffer.alloc(0);
    const secrets = this.#secrets.redactor();
    const file = homeLayout.log(this.#home, id);
    if (secrets.empty) return readStoredLog(file, offset, length, stored);
    // A secret may begin before the requested range, and end after it.
    const around = secrets.longest - 1;
    const from = Math.max(0, offset - around);
    const bytes = readStoredLog(file, from, Math.min(stored, offset + length + around) - from, stored);
    return secrets.cover(bytes).subarray(offset - from, offset - from + length);
  }

  logTailOffset(id: string, lines: number): number {
    return tailOffset((offset, max) => this.readLog(id, offset, max), this.logBytes(id), lines);
  }

  logTimes(id: string, from: number): { offset: number; at_ms: number }[] {
    return this.#all(
      `SELECT offset, at_ms FROM log_time WHERE job_id = ? AND offset >= coalesce(
         (SELECT max(offset) FROM log_time WHERE job_id = ? AND offset <= ?), 0) ORDER BY offset`,
      id,
      id,
      from,
    );
  }

  removedAt(id: string): string | null {
    return removedAt((sql, ...args) => this.#all(sql, ...args), id);
  }

  checkpoints(id: string): CheckpointFile[] {
    // A store from an older program has no `in_progress` and no `placement`.
    return this.#all<{ path: string; size: number; modified_at: number; in_progress?: number; placement?: number }>(
      "SELECT * FROM checkpoint WHERE job_id = ? ORDER BY path",
      id,
    ).map((r) => ({
      path: r.path,
      size: r.size,
      modified_at: new Date(r.modified_at).toISOString(),
      ...(r.in_progress === 1 ? { in_progress: true } : {}),
      ...(r.placement !== undefined && r.placement > 1 ? { placement: r.placement } : {}),
    }));
  }

  checkpointPath(id: string, path: string): string | null {
    const row = this.#get<{ path: string }>("SELECT path FROM checkpoint WHERE job_id = ? AND path = ?", id, path);
    return row ? join(homeLayout.checkpoints(this.#home, id), row.path) : null;
  }

  code(id: string, { restored = false } = {}): CodeSnapshot | null {
    const snapshot =
      this.#get<{ code_snapshot: string | null }>("SELECT code_snapshot FROM job WHERE id = ?", id)?.code_snapshot ??
      null;
    if (snapshot === null) return null;
    try {
      // The id is a hash that svc made; the file is svc's own and is written once.
      const manifest = readFileSync(snapshotFile(homeLayout.code(this.#home), snapshot), "utf8");
      const { sealed, ...shown } = JSON.parse(manifest) as CodeSnapshot & { sealed?: string };
      return restored && sealed ? (this.#secrets.unseal({ ...shown, sealed }) as CodeSnapshot) : shown;
    } catch (cause) {
      const why = "its manifest is missing or unreadable";
      throw new SvcError("code_snapshot_damaged", { id: snapshot, why }, { cause });
    }
  }

  leftOutList(id: string): string | null {
    const row = this.#get<JobRow>("SELECT * FROM job WHERE id = ?", id);
    return row?.left_out ? storedLeftOut(row.left_out).list : null;
  }

  heldHandle(jobId: string, node: number): string | null {
    const sql =
      "SELECT handle FROM machine WHERE job_id = ? AND node = ? AND state <> 'released' AND handle IS NOT NULL";
    return this.#all<{ handle: string }>(`${sql} ORDER BY ordinal DESC LIMIT 1`, jobId, node)[0]?.handle ?? null;
  }

  hostStats(): HostStats {
    return readHostStats((sql, ...args) => this.#all(sql, ...args), this.#now());
  }

  machines(): LedgerMachine[] {
    // A local run costs nothing, whatever its outcome.
    const now = this.#now();
    return this.#all<MachineRow>(
      "SELECT * FROM machine WHERE state <> 'released' AND provider <> ? ORDER BY created_at, name",
      THIS_COMPUTER,
    ).map((row) => ledgerMachineOf(row, now));
  }

  costs(query: CostsQuery): CostReport {
    return readCosts(this.#select, query, this.#now(), localCalendar);
  }

  limits(): HomeLimits {
    return readHomeLimits(this.#select, this.#now());
  }

  readonly retention: Reads["retention"] = (now, seen) =>
    readRetention(this.#select, (id) => this.sinks(id), now, seen);
  readonly oldRuns: Reads["oldRuns"] = (ask) => readOldRuns(this.#select, (id) => this.sinks(id), ask);

  receipt(id: string): Receipt | null {
    return readReceipt(this.#select, id, this.#now(), localCalendar);
  }

  eventsSince(since: number, options: { jobId?: string; limit: number }): FeedEvent[] {
    type Row = { seq: number; job_id: string | null; at: number; type: string; data: string };
    const rows =
      options.jobId === undefined
        ? this.#all<Row>("SELECT * FROM feed WHERE seq > ? ORDER BY seq LIMIT ?", since, options.limit)
        : this.#all<Row>(
            "SELECT * FROM feed WHERE job_id = ? AND seq > ? ORDER BY seq LIMIT ?",
            options.jobId,
            since,
            options.limit,
          );
    return rows.map((r) => ({
      ...r,
      at: new Date(r.at).toISOString(),
      data: JSON.parse(r.data) as Record<string, unknown>,
    }));
  }

  latestSeq(): number {
    return this.#get<{ n: number | null }>("SELECT max(seq) AS n FROM feed")?.n ?? 0;
  }

  close(): void {
    this.#db.close();
  }
}

/**
 * Opens a home for reading only. A home that was never used reads as empty.
 * @throws `store_missing`, `store_corrupt`, `store_newer`, `home_unusable`.
 */
export function openReads(home: string, secrets: ShownSecrets = NO_SECRETS): Reads & { close(): void } {
  const file = homeLayout.store(home);
  if (!existsSync(file)) {
    if (existsSync(homeLayout.installation(home))) throw new SvcError("store_missing", { file });
    const empty = new (sqlite())(":memory:");
    for (const sql of Object.values(SCHEMAS).flat()) empty.exec(sql);
    return new StoreReads(empty, home, Date.now, secrets);
  }
  if (statSync(file).size === 0) throw new SvcError("store_corrupt", { file, why: "the file is empty" });
  let db: Sqlite;
  try {
    db = new (sqlite())(file, { readonly: true, timeout: 5_000 });
    const version = db.pragma("user_version", { simple: true }) as number;
    if (version > Object.keys(SCHEMAS).length) throw new SvcError("store_newer", { file });
    const all: All = (sql, ...args) => db.prepare(sql).all(...args) as never;
    secrets.learn?.(all);
  } catch (e) {
    if (e instanceof SvcError) throw e;
    if (isDiskFull(e)) throw new SvcError("disk_full", { path: home, starting: true }, { cause: e });
    const why = messageOf(e);
    const code = (e as { code?: string }).code ?? "";
    if (code.startsWith("SQLITE_CORRUPT") || code === "SQLITE_NOTADB")
      throw new SvcError("store_corrupt", { file, why }, { cause: e });
    throw new SvcError("home_unusable", { home, why: `cannot be read (${why})` }, { cause: e });
  }
  return new StoreReads(db, home, Date.now, secrets);
}
