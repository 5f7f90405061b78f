// Chooses the checkpoint from which a job resumes, and keeps the choice in its run folder; also keeps the announcements
// of scripts next to their files.

import { appendFileSync, existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { SvcError } from "../../errors/index.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { chooseResume, pinResume, readAnnounced, Resume, type Announced } from "./resume.ts";
import { replaceFile } from "../../platform/replace-file.ts";

/** More announcements add no information: this bounds how much a script can make svc store. */
const ANNOUNCED_BYTES_MAX = 4 * 1024 * 1024;

export class Resumes {
  readonly #home: string;
  readonly #specOf: (jobId: string) => RunSpec | null;
  readonly #chosen = new Map<string, Promise<Resume | null>>();

  /** @param specOf returns null for a job that this home does not have. */
  constructor(home: string, specOf: (jobId: string) => RunSpec | null) {
    this.#home = home;
    this.#specOf = specOf;
  }

  /** The checkpoint from which the job resumes; null if it starts from the beginning. Throws `resume_unavailable`. */
  of(jobId: string): Promise<Resume | null> {
    let chosen = this.#chosen.get(jobId);
    if (!chosen) {
      this.#chosen.set(jobId, (chosen = this.#choose(jobId)));
      chosen.catch(() => this.#chosen.delete(jobId));
    }
    return chosen;
  }

  /** The files of an earlier choice. */
  given(jobId: string): Resume["files"] {
    return this.#read(jobId)?.files ?? [];
  }

  /** Throws `resume_unavailable` if there is no checkpoint to resume from. */
  async check(from: string): Promise<Resume> {
    if (this.#specOf(from) === null)
      throw new SvcError("resume_unavailable", { job: from, why: "there is no such job" });
    const found = await chooseResume(from, async (job) => {
      const spec = this.#specOf(job);
      if (spec === null) return null;
      const announced = new Set((await this.announcements(job)).keys());
      const checkpoints = join(this.#home, "artifacts", job, "checkpoints");
      return { job, checkpoints, announced, nodes: spec.nodes, resumedFrom: spec.resume_from };
    });
    if (found === null)
      throw new SvcError("resume_unavailable", { job: from, why: "no complete checkpoint of it came home" });
    return found;
  }

  /** By name, how often the script has announced it. */
  async announcements(jobId: string): Promise<Map<string, number>> {
    return (await readAnnounced(this.#announcedFile(jobId))).times;
  }

  /** The same, with the steps. */
  announced(jobId: string): Promise<Announced> {
    return readAnnounced(this.#announcedFile(jobId));
  }

  /** Names of the other nodes are below `node<k>/` on this computer and are not recorded: rank 0 announces for all. */
  announce(jobId: string, node: number, names: readonly { path: string; step: number | null }[]): void {
    if (names.length === 0 || node !== 0) return;
    const file = this.#announcedFile(jobId);
    mkdirSync(join(this.#home, "artifacts", jobId), { recursive: true, mode: 0o700 });
    if (existsSync(file) && statSync(file).size > ANNOUNCED_BYTES_MAX) return;
    appendFileSync(
      file,
      names.map(({ path, step }) => `${JSON.stringify(step === null ? path : { path, step })}\n`).join(""),
      { mode: 0o600 },
    );
  }

  forget(jobId: string): void {
    this.#chosen.delete(jobId);
  }

  async #choose(jobId: string): Promise<Resume | null> {
    const from = this.#specOf(jobId)?.resume_from;
    if (from === undefined) return null;
    const before = this.#read(jobId);
    if (before) return before;
    mkdirSync(join(this.#home, "runs", jobId), { recursive: true, mode: 0o700 });
    const pin = async (): Promise<Resume> =>
      pinResume(await this.check(from), join(this.#home, "runs", jobId, "resume"));
    // The file may have been saved again between the choice and now: then the new one is the last checkpoint.
    const chosen = await pin().catch((e: unknown) => {
      if (e instanceof SvcError && e.code === "resume_unavailable") return pin();
      throw e;
    });
    replaceFile(this.#choiceFile(jobId), JSON.stringify(chosen));
    return chosen;
  }

  #read(jobId: string): Resume | null {
    try {
      const read = Resume.safeParse(JSON.parse(readFileSync(this.#choiceFile(jobId), "utf8")));
      return read.success ? read.data : null;
    } catch {
      return null;
    }
  }

  readonly #choiceFile = (jobId: string): string => join(this.#home, "runs", jobId, "resume.json");
  readonly #announcedFile = (jobId: string): string => join(this.#home, "artifacts", jobId, "announced.jsonl");
}
