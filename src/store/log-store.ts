// Rows of a run's log: cursors, times, series, points, checkpoints. Points arrive by the ten thousand, so each is one
// bound insert and nothing else.

import type { Selectable } from "kysely";
import type { Sqlite } from "./database.ts";
import { columns, lit, p, prepare, q } from "./statements.ts";
import type { CursorRow, Tables } from "./tables.ts";

export class LogStore {
  readonly #s;
  readonly #point;

  constructor(db: Sqlite) {
    this.#s = {
      cursor: prepare<CursorRow>(
        db,
        q
          .selectFrom("log_cursor")
          .selectAll()
          .where("job_id", "=", p("job_id"))
          .where("node", "=", p("node"))
          .where("stream", "=", p("stream")),
      ),
      insertCursor: prepare(
        db,
        q
          .insertInto("log_cursor")
          .values(columns("job_id", "node", "stream", "source_offset", "samples_offset", "ended"))
          .onConflict((c) => c.doNothing()),
      ),
      moveCursor: prepare(
        db,
        q
          .updateTable("log_cursor")
          .set({ source_offset: p("source_offset"), samples_offset: p("samples_offset") })
          .where("job_id", "=", p("job_id"))
          .where("node", "=", p("node"))
          .where("stream", "=", p("stream"))
          .where("source_offset", "=", p("from_source"))
          .where("samples_offset", "=", p("from_samples")),
      ),
      stored: prepare<{ stored_bytes: number }>(
        db,
        q.selectFrom("log").select("stored_bytes").where("job_id", "=", p("job_id")),
      ),
      setStored: prepare(db, q.replaceInto("log").values(columns("job_id", "stored_bytes"))),
      time: prepare(db, q.replaceInto("log_time").values(columns("job_id", "offset", "at_ms"))),
      series: prepare<{ id: number }>(
        db,
        q.selectFrom("series").select("id").where("job_id", "=", p("job_id")).where("name", "=", p("name")),
      ),
      seriesCount: prepare<{ n: number }>(
        db,
        q
          .selectFrom("series")
          .select((e) => e.fn.countAll<number>().as("n"))
          .where("job_id", "=", p("job_id")),
      ),
      insertSeries: prepare(db, q.insertInto("series").values(columns("job_id", "name"))),
      lastPoint: prepare<{ n: number | null }>(
        db,
        q
          .selectFrom("point")
          .select((e) => e.fn.max("i").as("n"))
          .where("series_id", "=", p("series_id")),
      ),
      linked: prepare<{ seq: number }>(
        db,
        q
          .selectFrom("feed")
          .select("seq")
          .where("job_id", "=", p("job_id"))
          .where("type", "=", lit("tracker.linked"))
          .limit(1),
      ),
      checkpointAt: prepare<{ size: number; modified_at: number; in_progress: number; placement: number }>(
        db,
        q
          .selectFrom("checkpoint")
          .select(["size", "modified_at", "in_progress", "placement"])
          .where("job_id", "=", p("job_id"))
          .where("path", "=", p("path")),
      ),
      checkpoint: prepare(
        db,
        q
          .replaceInto("checkpoint")
          .values(columns("job_id", "path", "size", "modified_at", "saved_at", "in_progress", "placement")),
      ),
      checkpointPlacements: prepare<{ path: string; placement: number }>(
        db,
        q.selectFrom("checkpoint").select(["path", "placement"]).where("job_id", "=", p("job_id")),
      ),
      dropCheckpoint: prepare(
        db,
        q.deleteFrom("checkpoint").where("job_id", "=", p("job_id")).where("path", "=", p("path")),
      ),
    };
    this.#point = db.prepare("INSERT INTO point (series_id, i, step, time, value, rank) VALUES (?, ?, ?, ?, ?, ?)");
  }

  cursor(jobId: string, node: number, stream: string): CursorRow | undefined {
    return this.#s.cursor.get({ job_id: jobId, node, stream });
  }
  /** False when another writer moved it since `from` was read: then nothing may be written for this part. */
  moveCursor(
    at: { job_id: string; node: number; stream: string },
    from: { source_offset: number; samples_offset: number },
    to: { source_offset: number; samples_offset: number },
  ): boolean {
    if (from.source_offset === 0 && from.samples_offset === 0) this.#s.insertCursor.run({ ...at, ...from, ended: 0 });
    return (
      this.#s.moveCursor.run({ ...at, ...to, from_source: from.source_offset, from_samples: from.samples_offset })
        .changes === 1
    );
  }
  stored(jobId: string): number {
    return this.#s.stored.get({ job_id: jobId })?.stored_bytes ?? 0;
  }
  setStored(jobId: string, bytes: number): void {
    this.#s.setStored.run({ job_id: jobId, stored_bytes: bytes });
  }
  time(jobId: string, offset: number, atMs: number): void {
    this.#s.time.run({ job_id: jobId, offset, at_ms: atMs });
  }
  seriesCount(jobId: string): number {
    return this.#s.seriesCount.get({ job_id: jobId })?.n ?? 0;
  }
  hasSeries(jobId: string, name: string): boolean {
    return this.#s.series.get({ job_id: jobId, name }) !== undefined;
  }
  /** The series' id and the index of its next point. */
  series(jobId: string, name: string): { id: number; next: number } {
    const found = this.#s.series.get({ job_id: jobId, name });
    const id = found?.id ?? Number(this.#s.insertSeries.run({ job_id: jobId, name }).lastInsertRowid);
    return { id, next: (this.#s.lastPoint.get({ series_id: id })?.n ?? -1) + 1 };
  }
  point(seriesId: number, i: number, step: number, time: number, value: number | null, rank: number): void {
    this.#point.run(seriesId, i, step, time, value, rank);
  }
  /** Classifies a checkpoint file: unchanged, still being written and known before, or new. */
  checkpoint(row: Selectable<Tables["checkpoint"]>): "nothing" | "grown" | "saved" {
    const before = this.#s.checkpointAt.get({ job_id: row.job_id, path: row.path });
    const isSame = before?.size === row.size && before.modified_at === row.modified_at;
    if (isSame && before.in_progress === row.in_progress) return "nothing";
    this.#s.checkpoint.run({ ...row });
    return before !== undefined && row.in_progress === 1 ? "grown" : "saved";
  }
  /** The placement whose machine saved the file; null if it is unknown. */
  savedBy(jobId: string, path: string): number | null {
    return this.#s.checkpointAt.get({ job_id: jobId, path })?.placement ?? null;
  }
  /** The same for all files of the job, by path. */
  placementsOf(jobId: string): Map<string, number> {
    return new Map(this.#s.checkpointPlacements.all({ job_id: jobId }).map(({ path, placement }) => [path, placement]));
  }
  /** Records that the file is no longer on this computer. */
  dropCheckpoint(jobId: string, path: string): void {
    this.#s.dropCheckpoint.run({ job_id: jobId, path });
  }

  /** Whether the job's page at the tracker is known. */
  linked(jobId: string): boolean {
    return this.#s.linked.get({ job_id: jobId }) !== undefined;
  }
}
