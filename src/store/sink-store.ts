// Rows of sinks: the progress of each copy. Called within a transaction, except for reads.

import type { Insertable } from "kysely";
import type { Sqlite } from "./database.ts";
import { UNCOPIED_CHECKPOINTS } from "./sink-reads.ts";
import { columns, lit, p, prepare, q } from "./statements.ts";
import type { SinkCopyRow, SinkRow, SinkUploadRow, Tables } from "./tables.ts";

/** A sink of a job. */
export interface SinkKey {
  job_id: string;
  sink: number;
}
interface FileKey extends SinkKey {
  path: string;
}

export class SinkStore {
  readonly #s;
  readonly #uncopied;

  constructor(db: Sqlite) {
    const ofSink = q.updateTable("sink").where("job_id", "=", p("job_id")).where("sink", "=", p("sink"));
    const copies = q
      .selectFrom("sink_copy")
      .selectAll()
      .where("job_id", "=", p("job_id"))
      .where("sink", "=", p("sink"));
    this.#s = {
      open: prepare<{ job_id: string; sink: number }>(
        db,
        q
          .selectFrom("sink")
          .select(["job_id", "sink"])
          .where("state", "=", lit("open"))
          .orderBy("job_id")
          .orderBy("sink"),
      ),
      all: prepare<SinkRow>(db, q.selectFrom("sink").selectAll().where("job_id", "=", p("job_id")).orderBy("sink")),
      insert: prepare(
        db,
        q.insertInto("sink").values({
          ...columns("job_id", "sink"),
          state: lit("open"),
          failures: 0,
          error: lit(null),
          next_at: lit(null),
          copied_at: lit(null),
          manifest: lit(null),
        }),
      ),
      update: prepare(db, ofSink.set(columns("state", "failures", "error", "next_at"))),
      copies: prepare<SinkCopyRow>(db, copies.orderBy("path")),
      copy: prepare<SinkCopyRow>(db, copies.where("path", "=", p("path"))),
      putCopy: prepare(
        db,
        q
          .replaceInto("sink_copy")
          .values(columns("job_id", "sink", "path", "size", "modified_at", "sha256", "why", "copied_at")),
      ),
      uploads: prepare<SinkUploadRow>(
        db,
        q.selectFrom("sink_upload").selectAll().where("job_id", "=", p("job_id")).where("sink", "=", p("sink")),
      ),
      putUpload: prepare(
        db,
        q.replaceInto("sink_upload").values(columns("job_id", "sink", "path", "size", "sha256", "resume", "sent")),
      ),
      progress: prepare(
        db,
        q
          .updateTable("sink_upload")
          .set(columns("sent"))
          .where("job_id", "=", p("job_id"))
          .where("sink", "=", p("sink"))
          .where("path", "=", p("path")),
      ),
      copied: prepare(db, ofSink.set(columns("copied_at"))),
      manifest: prepare(db, ofSink.set(columns("manifest"))),
      get: prepare<SinkRow>(
        db,
        q.selectFrom("sink").selectAll().where("job_id", "=", p("job_id")).where("sink", "=", p("sink")),
      ),
      dropUpload: prepare(
        db,
        q
          .deleteFrom("sink_upload")
          .where("job_id", "=", p("job_id"))
          .where("sink", "=", p("sink"))
          .where("path", "=", p("path")),
      ),
    };
    this.#uncopied = db.prepare(`${UNCOPIED_CHECKPOINTS} ORDER BY c.size, c.path`);
  }

  /** Sinks with pending work, of active and ended jobs. */
  open(): SinkKey[] {
    return this.#s.open.all({});
  }
  ofJob(jobId: string): SinkRow[] {
    return this.#s.all.all({ job_id: jobId });
  }
  insert(key: SinkKey): void {
    this.#s.insert.run({ ...key });
  }
  get(key: SinkKey): SinkRow | undefined {
    return this.#s.get.get({ ...key });
  }
  /** Records the result of a try. */
  update(row: SinkKey & Pick<SinkRow, "state" | "failures" | "error" | "next_at">): void {
    this.#s.update.run({ ...row });
  }
  copied(key: SinkKey, at: number): void {
    this.#s.copied.run({ ...key, copied_at: at });
  }
  setManifest(key: SinkKey, manifest: string): void {
    this.#s.manifest.run({ ...key, manifest });
  }
  progress(row: FileKey & { sent: number }): void {
    this.#s.progress.run({ ...row });
  }
  /** Checkpoints, small ones first, whose newest version was neither copied nor excluded. */
  uncopied({ job_id, sink }: SinkKey): { path: string; size: number; modified_at: number }[] {
    return this.#uncopied.all(sink, job_id) as { path: string; size: number; modified_at: number }[];
  }
  copies(key: SinkKey): SinkCopyRow[] {
    return this.#s.copies.all({ ...key });
  }
  copy(key: FileKey): SinkCopyRow | undefined {
    return this.#s.copy.get({ ...key });
  }
  putCopy(row: Insertable<Tables["sink_copy"]>): void {
    this.#s.putCopy.run({ ...row });
  }
  uploads(key: SinkKey): SinkUploadRow[] {
    return this.#s.uploads.all({ ...key });
  }
  putUpload(row: SinkUploadRow): void {
    this.#s.putUpload.run({ ...row });
  }
  dropUpload(key: FileKey): void {
    this.#s.dropUpload.run({ ...key });
  }
}
