// Chooses the checkpoint from which each placement resumes, and keeps the choice in the run folder of its job; also keeps the
// announcements of scripts next to their files. The first placement resumes from the job that its spec names, a later one from what the
// job itself has saved; until it has saved something, from the same checkpoint as the first.

import { appendFileSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { SvcError } from "../../errors/index.ts";
import type { ResumePoint } from "../../schemas/job.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { chooseResume, completeOnes, lastComplete, pinResume, Resume, type ResumeSource } from "./resume.ts";
import { announcedIn, lineOf, readAnnounced, shortened, type Announced, type Announcement } from "./announcements.ts";
import { replaceFile } from "../../platform/replace-file.ts";
import { homeLayout } from "../../platform/home-layout.ts";

/** A longer file of announcements gets one line for each name. */
const ANNOUNCED_BYTES = 4 * 1024 * 1024;

/** The most names that a refusal lists, and the most checkpoints in an answer. */
const [NAMED_MAX, POINTS_MAX] = [5, 200];

/** The checkpoint that the first placement of a run resumes from. */
export const sourceOf = ({ resume_from, resume_checkpoint }: RunSpec): ResumeSource | undefined =>
  resume_from === undefined ? undefined : { job: resume_from, checkpoint: resume_checkpoint };

/** An older program did not keep the time with a choice. */
const savedAt = ({ saved, files }: Resume): number =>
  saved?.at ?? files.reduce((at, { mtime_ms }) => Math.max(at, mtime_ms), 0);

export class Resumes {
  readonly #home: string;
  readonly #specOf: (jobId: string) => RunSpec | null;
  readonly #placementOf: (jobId: string) => number;
  readonly #removedOf: (jobId: string) => ReadonlySet<string>;
  readonly #savedBy: (jobId: string) => ReadonlyMap<string, number>;
  /** By job: the placement for which the choice was made. */
  readonly #chosen = new Map<string, { placement: number; resume: Promise<Resume | null> }>();
  /** By job: what its file of announcements held at this stamp. */
  readonly #announced = new Map<string, { stamp: string; announced: Announced }>();
  /** By job: the length of its file of announcements when it got one line for each name. */
  readonly #shortened = new Map<string, number>();

  /**
   * @param specOf returns null for a job that this home does not have.
   * @param placementOf the number of the job's placement, from 1.
   * @param removedOf names of checkpoints that are being removed: their files may be half deleted, so they do not count.
   * @param savedBy the placement whose machine saved each file, by path; 1 where it is missing.
   */
  constructor(
    home: string,
    specOf: (jobId: string) => RunSpec | null,
    placementOf: (jobId: string) => number,
    removedOf: (jobId: string) => ReadonlySet<string> = () => new Set(),
    savedBy: (jobId: string) => ReadonlyMap<string, number> = () => new Map(),
  ) {
    this.#home = home;
    this.#specOf = specOf;
    this.#placementOf = placementOf;
    this.#removedOf = removedOf;
    this.#savedBy = savedBy;
  }

  /** The checkpoint from which the job's placement resumes; null if it starts from the beginning. Throws `resume_unavailable`. */
  of(jobId: string): Promise<Resume | null> {
    const placement = this.#placementOf(jobId);
    const before = this.#chosen.get(jobId);
    if (before?.placement === placement) return before.resume;
    const chosen = { placement, resume: this.#choose(jobId, placement) };
    this.#chosen.set(jobId, chosen);
    chosen.resume.catch(() => {
      if (this.#chosen.get(jobId) === chosen) this.#chosen.delete(jobId);
    });
    return chosen.resume;
  }

  /**
   * The complete checkpoint on this computer from which another placement would start, by a name that changes when it is saved again; null
   * for none. A fault of the disk counts as none: it must not keep a machine from being released.
   */
  async newestOf(jobId: string): Promise<string | null> {
    const left = await this.#leavings(jobId);
    const own = left === null ? null : await lastComplete(left).catch(() => null);
    const found = own ?? this.#chosenBefore(jobId, this.#placementOf(jobId) + 1);
    if (found === null) return null;
    const name = found.job === jobId ? found.name : `${found.job}:${found.name}`;
    return `${name}@${Math.round(savedAt(found))}`;
  }

  /** The checkpoint that the placement before this one, or an earlier one, started from. */
  #chosenBefore(jobId: string, placement: number): Resume | null {
    for (let n = placement - 1; n >= 1; n--) {
      const chosen = this.#read(jobId, n);
      if (chosen !== null) return chosen;
    }
    return null;
  }

  /** The files of an earlier choice. */
  given(jobId: string): Resume["files"] {
    return this.#read(jobId, this.#placementOf(jobId))?.files ?? [];
  }

  /** Throws `resume_unavailable` or `invalid_request`, with the field, if a run of this spec could not resume as it asks. */
  async checkSpec(spec: RunSpec): Promise<void> {
    const from = sourceOf(spec);
    if (from) await this.check(from);
    else if (spec.resume_checkpoint !== undefined) {
      const message = "needs resume_from, the job that saved it";
      const errors = [{ field: "spec.resume_checkpoint", message }];
      throw new SvcError("invalid_request", { summary: `spec.resume_checkpoint ${message}.` }, { errors });
    }
  }

  /**
   * Chooses the checkpoint to resume from. Throws `resume_unavailable` if the job or a complete checkpoint is missing.
   */
  async check(from: ResumeSource): Promise<Resume> {
    const { job, checkpoint } = from;
    if (this.#specOf(job) === null) throw new SvcError("resume_unavailable", { job, why: "there is no such job" });
    const found = await chooseResume(from, (each) => this.#leavings(each));
    if (found !== null) return found;
    const complete = (await this.complete(job, NAMED_MAX)).map(({ name }) => name);
    if (checkpoint === undefined || complete.length === 0)
      throw new SvcError("resume_unavailable", { job, why: "none of its complete checkpoints is on this computer" });
    const why = `${checkpoint} is not a complete checkpoint on this computer; the newest that are: ${complete.join(", ")}`;
    const error = new SvcError("resume_unavailable", { job, why });
    const errors = [{ field: "spec.resume_checkpoint", message: error.message }];
    throw new SvcError(error.code, error.data, { errors });
  }

  /** The complete checkpoints of the job, for people who choose one. */
  async points(jobId: string): Promise<ResumePoint[]> {
    const { steps } = await this.announced(jobId);
    return (await this.complete(jobId, POINTS_MAX)).map((one) => ({
      name: one.name,
      step: steps.get(one.name) ?? null,
      files: one.files.length,
      bytes: one.files.reduce((sum, { size }) => sum + size, 0),
      saved_at: new Date(savedAt(one)).toISOString(),
    }));
  }

  /** The complete checkpoints that the job itself has on this computer, the newest first. Opens the files of each. */
  async complete(jobId: string, max: number): Promise<Resume[]> {
    const left = await this.#leavings(jobId);
    const found: Resume[] = [];
    if (left === null) return found;
    for await (const each of completeOnes(left)) if (found.push(each) >= max) break;
    return found;
  }

  /**
   * The checkpoints that placements of the job have received, or the one that its first placement would receive now; empty if it resumes from
   * none.
   */
  async sources(jobId: string): Promise<Pick<Resume, "job" | "name">[]> {
    const placements = Array.from({ length: this.#placementOf(jobId) }, (_, i) => i + 1);
    const received = placements.flatMap((n) => this.#read(jobId, n) ?? []);
    if (received.length > 0) return received;
    const spec = this.#specOf(jobId);
    const from = spec === null ? undefined : sourceOf(spec);
    const next = from === undefined ? null : await chooseResume(from, (each) => this.#leavings(each));
    return next === null ? [] : [next];
  }

  /** What the script has announced. */
  async announced(jobId: string): Promise<Announced> {
    const file = this.#announcedFile(jobId);
    const found = statSync(file, { throwIfNoEntry: false });
    const stamp = `${found?.ino} ${found?.size} ${found?.mtimeMs}`;
    const before = this.#announced.get(jobId);
    if (before?.stamp === stamp) return before.announced;
    const announced = await readAnnounced(file);
    this.#announced.set(jobId, { stamp, announced });
    return announced;
  }

  /** Names of the other nodes are below `node<k>/` on this computer and are not recorded: rank 0 announces for all. */
  announce(jobId: string, node: number, names: readonly Announcement[]): void {
    if (names.length === 0 || node !== 0) return;
    const file = this.#announcedFile(jobId);
    mkdirSync(homeLayout.artifactsOf(this.#home, jobId), { recursive: true, mode: 0o700 });
    const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
    if (size > Math.max(ANNOUNCED_BYTES, 2 * (this.#shortened.get(jobId) ?? 0))) {
      const text = shortened(announcedIn(readFileSync(file, "utf8")));
      replaceFile(file, text);
      this.#shortened.set(jobId, text.length);
    }
    const placement = this.#placementOf(jobId);
    const lines = names.map((each) => lineOf(each, placement));
    // A full disk may have cut the line before. The log's cursor moves on after this, on the disk, so these lines must be there, too.
    appendFileSync(file, `\n${lines.join("")}`, { mode: 0o600, flush: true });
  }

  forget(jobId: string): void {
    this.#chosen.delete(jobId);
    this.#announced.delete(jobId);
    this.#shortened.delete(jobId);
  }

  async #leavings(job: string) {
    const spec = this.#specOf(job);
    if (spec === null) return null;
    const announced = new Set((await this.announced(job)).times.keys());
    const checkpoints = homeLayout.checkpoints(this.#home, job);
    const [removed, savedBy] = [this.#removedOf(job), this.#savedBy(job)];
    return { job, checkpoints, announced, removed, savedBy, nodes: spec.nodes, resumedFrom: sourceOf(spec) };
  }

  async #choose(jobId: string, placement: number): Promise<Resume | null> {
    const spec = this.#specOf(jobId);
    const from = placement > 1 ? { job: jobId } : spec === null ? undefined : sourceOf(spec);
    if (from === undefined) return null;
    const before = this.#read(jobId, placement);
    if (before) return before;
    mkdirSync(homeLayout.run(this.#home, jobId), { recursive: true, mode: 0o700 });
    // The other job may have been removed since, or may have saved more: the files that were kept then are the same.
    const other = async (): Promise<Resume> => this.#chosenBefore(jobId, placement) ?? this.check(from);
    const own = async (): Promise<Resume | null> => {
      const left = placement > 1 ? await this.#leavings(jobId) : null;
      return left === null ? null : lastComplete(left);
    };
    const pin = async (): Promise<Resume> =>
      pinResume((await own()) ?? (await other()), homeLayout.resumeFiles(this.#home, jobId, placement));
    try {
      // The file may have been saved again between the choice and now: then the new one is the last checkpoint.
      const chosen = await pin().catch((e: unknown) => {
        if (e instanceof SvcError && e.code === "resume_unavailable") return pin();
        throw e;
      });
      replaceFile(this.#choiceFile(jobId, placement), JSON.stringify(chosen));
      return chosen;
    } catch (e) {
      // A retry that asks for no checkpoint starts from the beginning if there is none.
      if (placement > 1 && e instanceof SvcError && e.code === "resume_unavailable") return null;
      throw e;
    }
  }

  #read(jobId: string, placement: number): Resume | null {
    try {
      const read = Resume.safeParse(JSON.parse(readFileSync(this.#choiceFile(jobId, placement), "utf8")));
      return read.success ? read.data : null;
    } catch {
      return null;
    }
  }

  readonly #choiceFile = (jobId: string, placement: number): string =>
    homeLayout.resumeChoice(this.#home, jobId, placement);
  readonly #announcedFile = (jobId: string): string => homeLayout.announced(this.#home, jobId);
}
