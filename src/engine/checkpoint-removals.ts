// Removes single checkpoints of ended runs, to free disk space: their files on every node, their kept sets and their rows. The
// service calls it for `POST /jobs/{id}/checkpoints/remove`.
//
// CR1. Only of an ended run, and never a checkpoint that a live run has received or would receive, that a submission may be about
//      to choose, or that a sink still copies. A part of a complete checkpoint is not removed by itself; a part of the removed one is.
// CR2. All names are removed, or none. The removal is durable before the first file is deleted: from then on no run can resume from
//      the checkpoint, even if a crash leaves half of its files. The next start continues, as does a retry after a failed deletion.
// CR3. A name that was removed before is removed already: a repeated call changes nothing.
// CR4. One removal at a time: what a live run would receive may depend on the removal before.

import { quotedName } from "../domain/quoted-name.ts";
import { messageOf, SvcError } from "../errors/index.ts";
import { homeLayout } from "../platform/home-layout.ts";
import type { CheckpointRemovalBody, CheckpointsRemoved } from "../schemas/removal.ts";
import {
  deleteNamed,
  findNamed,
  isAtOrBelow,
  isPlainName,
  placesOnNodes,
  spaceOf,
  type CheckpointPlace,
  type NamedFiles,
} from "../steps/checkpoints/named-files.ts";
import { plainName } from "../steps/checkpoints/names.ts";
import type { Resumes } from "../steps/checkpoints/resume-choices.ts";
import { CheckpointRemovalStore } from "../store/checkpoint-removal-store.ts";
import type { Reads } from "../store/reads.ts";
import type { Engine } from "./engine.ts";
import type { SinkKeeper } from "./service-options.ts";
import { liveHeirs, type ResumeClaims } from "./resume-claims.ts";

const RETRY_EVERY_MS = 15_000;
/** How often the live runs are looked at again, because another one began meanwhile. */
const TRIES_MAX = 5;
/** The most names that an error lists. */
const NAMED_MAX = 8;

export interface CheckpointRemovalParts {
  home: string;
  engine: Engine;
  reads: Reads;
  resumes: Pick<Resumes, "complete" | "sources">;
  claims: ResumeClaims;
  sinks: Pick<SinkKeeper, "endUploads" | "uncopied">;
  /** Measures the disk usage of the run again. */
  measure: (jobId: string) => Promise<void>;
  report: (line: string) => void;
}

type Obstacle = NonNullable<NamedFiles["obstacle"]>;

/** For each live run that resumes from the job, perhaps through others: why the removal must wait for it, or null. */
type Heirs = ReadonlyMap<string, Obstacle | null>;

export class CheckpointRemovals {
  readonly #o: CheckpointRemovalParts;
  readonly #rows: CheckpointRemovalStore;
  readonly #reported = new Set<string>();
  /** CR4. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: CheckpointRemovalParts) {
    this.#o = parts;
    this.#rows = new CheckpointRemovalStore(parts.engine.store.db);
  }

  /** Throws `job_not_found`, `checkpoint_not_found`, `checkpoint_not_removable`; then nothing was changed. */
  remove(jobId: string, body: CheckpointRemovalBody): Promise<CheckpointsRemoved> {
    return this.#inTurn(() => this.#remove(jobId, body));
  }

  /** Continues removals that an earlier process began. `every` repeats work until the control plane closes. */
  begin(every: (ms: number, work: () => void) => void): void {
    void this.retry();
    every(RETRY_EVERY_MS, () => void this.retry());
  }

  /** CR2. Never rejects: a store that cannot be read now is read again the next time. */
  retry(): Promise<void> {
    return this.#inTurn(async () => {
      try {
        const open = Map.groupBy(this.#rows.open(), ({ job_id }) => job_id);
        for (const [jobId, rows] of open)
          await this.#finish(
            jobId,
            rows.map(({ name }) => name),
          );
      } catch (e) {
        this.#o.report(`Unfinished removals of checkpoints could not be read: ${messageOf(e)}. svc retries.`);
      }
    });
  }

  /** Resolves when no removal is running. */
  async settle(): Promise<void> {
    await this.#last;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #remove(jobId: string, body: CheckpointRemovalBody): Promise<CheckpointsRemoved> {
    const asked = [...new Set(body.names.map(plainName))];
    this.#checkJob(jobId, asked[0] ?? "");
    const place = this.#placeOf(jobId);
    const found = await findNamed(place, asked.filter(isPlainName));
    if (found.obstacle) throw notRemovable(jobId, found.obstacle);
    const recorded = this.#o.reads.checkpoints(jobId).map(({ path }) => path);
    const names = asked.filter((name) => isThere(name, { found, recorded, place }));
    // CR3. The others were removed before.
    const unknown = asked.find((name) => !names.includes(name) && !this.#rows.knows({ job_id: jobId, name }));
    if (unknown !== undefined) throw await this.#notFound(jobId, unknown);
    const targets = names.flatMap((name) => placesOnNodes(name, place.nodes));
    await this.#checkParts(jobId, names, targets, place.nodes);
    const space = spaceOf(found.files);
    const answer = {
      id: jobId,
      dry_run: body.dry_run,
      checkpoints: asked.map((name) => ({ name, files: 0, bytes: 0, ...found.byName.get(name) })),
      freed_bytes: space.freed,
      linked_bytes: space.linked,
      left_bytes: 0,
    };
    if (!(await this.#decide(jobId, { names, targets, found, dryRun: body.dry_run })) || body.dry_run) return answer;
    await this.#finish(jobId, names);
    const { freed } = spaceOf((await findNamed(place, names)).files);
    return { ...answer, freed_bytes: Math.max(0, space.freed - freed), left_bytes: freed };
  }

  /** Commits the removal, once nothing speaks against it. False if there is nothing to remove. */
  async #decide(
    jobId: string,
    how: { names: readonly string[]; targets: readonly string[]; found: NamedFiles; dryRun: boolean },
  ): Promise<boolean> {
    const { engine } = this.#o;
    const { names, targets, found } = how;
    const { nodes } = this.#placeOf(jobId);
    const [first] = names;
    if (first === undefined) return false;
    for (let n = 0; n < TRIES_MAX; n++) {
      const heirs = await this.#heirs(jobId, targets, nodes);
      const isDecided = await engine.commit((tx) => {
        this.#checkJob(jobId, first);
        // CR1. A run that has begun since was not looked at.
        if (liveHeirs(engine.store, jobId).some((id) => !heirs.has(id))) return false;
        for (const refusal of heirs.values()) if (refusal) throw notRemovable(jobId, refusal);
        this.#checkSinks(jobId, names, nodes);
        if (how.dryRun) return true;
        for (const name of names) {
          this.#rows.begin({ job_id: jobId, name }, placesOnNodes(name, nodes), tx.at);
          tx.feed(jobId, "checkpoint.removed", { name, ...found.byName.get(name) });
        }
        return true;
      });
      if (isDecided) return true;
    }
    throw notRemovable(jobId, {
      name: first,
      why: "runs that resume from this run are being started",
      remedy: "Try again in a minute.",
    });
  }

  #placeOf(jobId: string): CheckpointPlace {
    const { home, engine } = this.#o;
    const nodes = engine.store.job(jobId)?.nodes ?? 1;
    return { home, checkpoints: homeLayout.checkpoints(home, jobId), nodes };
  }

  #checkJob(jobId: string, name: string): void {
    const { engine, claims } = this.#o;
    const row = engine.store.job(jobId);
    if (!row) throw new SvcError("job_not_found", { id: jobId });
    if (row.state !== "terminal")
      throw notRemovable(jobId, {
        name,
        why: "the run has not ended",
        remedy: `Wait until it has ended, or end it by \`svc kill ${jobId}\`.`,
      });
    if (claims.isClaimed(jobId))
      throw notRemovable(jobId, {
        name,
        why: "a run that is being submitted resumes from this run",
        remedy: "Try again in a minute.",
      });
  }

  async #notFound(jobId: string, name: string): Promise<SvcError> {
    const points = await this.#o.resumes.complete(jobId, NAMED_MAX);
    const names = points.map((point) => quotedName(point.name)).join(", ");
    const there = names === "" ? "No complete checkpoint of it is on this computer." : `Its newest are ${names}.`;
    return new SvcError("checkpoint_not_found", { id: jobId, name: quotedName(name), there });
  }

  /** CR1. */
  async #checkParts(jobId: string, names: readonly string[], targets: readonly string[], nodes: number): Promise<void> {
    for (const { name } of await this.#o.resumes.complete(jobId, Infinity)) {
      const places = placesOnNodes(name, nodes);
      if (places.every((at) => targets.some((top) => isAtOrBelow(at, top)))) continue;
      const part = names.find((each) => placesOnNodes(each, nodes).some((top) => overlap(places, [top])));
      if (part !== undefined)
        throw notRemovable(jobId, {
          name: part,
          why: `it is a part of the checkpoint ${quotedName(name)}`,
          remedy: `Remove the whole checkpoint ${quotedName(name)}, or keep both.`,
        });
    }
  }

  async #heirs(jobId: string, targets: readonly string[], nodes: number): Promise<Heirs> {
    const heirs = new Map<string, Obstacle | null>();
    for (const id of liveHeirs(this.#o.engine.store, jobId)) {
      const sources = await this.#o.resumes.sources(id);
      const used = sources.find(({ job, name }) => job === jobId && overlap(placesOnNodes(name, nodes), targets));
      heirs.set(id, used ? usedBy(id, used.name) : null);
    }
    return heirs;
  }

  #checkSinks(jobId: string, names: readonly string[], nodes: number): void {
    for (const { path, url } of this.#o.sinks.uncopied(jobId)) {
      const name = names.find((each) => overlap(placesOnNodes(each, nodes), [path]));
      if (name !== undefined)
        throw notRemovable(jobId, {
          name,
          why: `its files are still being copied to ${url}`,
          remedy: "Wait until the copy has ended.",
        });
    }
  }

  /** CR2. Never rejects. */
  async #finish(jobId: string, names: readonly string[]): Promise<void> {
    const { engine, measure, report, sinks } = this.#o;
    try {
      const place = this.#placeOf(jobId);
      const found = await findNamed(place, names);
      if (found.obstacle) throw notRemovable(jobId, found.obstacle);
      await deleteNamed(place, found);
      await engine.commit((tx) => {
        for (const name of names) this.#rows.end({ job_id: jobId, name }, tx.at);
      });
      this.#reported.delete(jobId);
      await sinks.endUploads(jobId, "dropped");
    } catch (e) {
      if (!this.#reported.has(jobId))
        report(
          `Removed checkpoints of the run ${jobId} could not be deleted: ${messageOf(e)}. No run resumes from them, but they still take disk space. svc retries.`,
        );
      this.#reported.add(jobId);
    }
    // The size on disk is only shown.
    await measure(jobId).catch(() => undefined);
  }
}

const overlap = (paths: readonly string[], others: readonly string[]): boolean =>
  paths.some((path) => others.some((other) => isAtOrBelow(path, other) || isAtOrBelow(other, path)));

const usedBy = (id: string, name: string): Obstacle => ({
  name,
  why: `the run ${id}, which has not ended, resumes from it`,
  remedy: `Wait until that run has ended, or end it by \`svc kill ${id}\`.`,
});

/** Whether the run has files or rows of the name. */
function isThere(
  name: string,
  { found, recorded, place }: { found: NamedFiles; recorded: readonly string[]; place: CheckpointPlace },
): boolean {
  const places = isPlainName(name) ? placesOnNodes(name, place.nodes) : [];
  if (places.some((at) => recorded.some((path) => isAtOrBelow(path, at)))) return true;
  return (found.byName.get(name)?.files ?? 0) > 0;
}

const notRemovable = (id: string, { name, why, remedy }: Obstacle): SvcError =>
  new SvcError("checkpoint_not_removable", { id, name: quotedName(name), why, remedy });
