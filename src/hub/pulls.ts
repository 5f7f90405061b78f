// All pulls of a home: an identical request joins the running pull, a different one into the same place waits for it.
//
// H1. A pull is on record before its first request, so that a control plane that starts after a crash resumes it.
// H2. A graceful shutdown interrupts pulls and records that; no downloaded byte is lost, and the next identical pull
//     resumes from there.
// H3. A token that came with a pull is kept only in memory.
// H4. Progress is a hint, a few times a second at most; beginning and end are events.

import { isAbsolute, join, resolve } from "node:path";
import { pause, type Clock, type TimerHandle } from "../domain/clock.ts";
import { orAborted } from "../domain/or-aborted.ts";
import { asSvcError, describeError, SvcError } from "../errors/index.ts";
import type { HubAdopted, HubModel, HubPull, HubPullBody, HubPulled } from "../schemas/hub.ts";
import { CachePlace } from "./cache-place.ts";
import { HubClient } from "./client.ts";
import { FolderPlace } from "./folder-place.ts";
import { checkModel } from "./model-check.ts";
import { listModels, rememberOwn, removeModel, type ModelPlaces } from "./models.ts";
import type { Place } from "./place.ts";
import { pullModel, type PullProgress } from "./pull.ts";
import { PullRecords, type PullRecord } from "./pull-records.ts";
import { PATIENCE, type Patience } from "./retry.ts";
import { Transfer } from "./transfer.ts";
import { homeLayout } from "../platform/home-layout.ts";
import { withoutTilde } from "../platform/user-home.ts";

export const HINT_EVERY_MS = 400;
/** A caller that waits for a pull learns within ten seconds, connecting included, that the hub does not answer. */
const TOLD_AFTER_MS = 5_000;
/** Time window of the reported speed. */
const SPEED_WINDOW_MS = 4_000;
const STALL_MS = 30_000;

export interface HubSettings {
  token: string | null;
  /** The hub's home that the owner configured: the cache is in its subfolder `hub/`. */
  cacheDir: string | null;
  url: string;
}

export interface PullsOptions {
  home: string;
  /** Distinguishes the unfinished files of this home from those of others. */
  mark: string;
  clock: Clock;
  newId: () => string;
  random: () => number;
  userAgent: string;
  /** Read again for each pull. Throws if the configuration cannot be used. */
  settings: () => HubSettings;
  /** Throws `extra_missing` if the hub extra is not installed. */
  requireExtra: () => void;
  /** A durable event; never rejects. */
  emit: (type: "pull.started" | "pull.ended", data: Record<string, unknown>) => Promise<void>;
  hint: (pull: HubPull) => void;
  stallMs?: number;
  patience?: Patience;
}

interface Running {
  record: PullRecord;
  same: string;
  stop: AbortController;
  ended: Promise<void>;
  error: SvcError | null;
  /** Why the hub has not answered so far, and since when. */
  unheard: { error: SvcError; sinceMs: number } | null;
  speed: { at: number; bytes: number }[];
  hintAt: number;
  later: TimerHandle | null;
}

export class Pulls {
  readonly #o: PullsOptions;
  readonly #records: PullRecords;
  readonly #all = new Map<string, PullRecord>();
  readonly #running = new Map<string, Running>();
  /** The last pull of each place, which the next one waits for. */
  readonly #last = new Map<string, Promise<void>>();
  #stopping = false;

  constructor(options: PullsOptions) {
    this.#o = options;
    this.#records = new PullRecords(options.home);
    for (const record of this.#records.load()) this.#all.set(record.pull.id, record);
  }

  /** Resumes the pulls that a crash cut off (H1). */
  begin(): void {
    for (const record of [...this.#all.values()].filter(({ pull }) => pull.status === "running")) {
      if (record.own_token) void this.#end(record, "interrupted", null);
      else this.#start(record, null);
    }
  }

  /** Starts a pull, or joins an identical one. */
  pull(body: HubPullBody): HubPull {
    this.#o.requireExtra();
    if (this.#stopping) throw new SvcError("shutting_down", {});
    this.#o.settings();
    const same = sameness(body);
    for (const running of this.#running.values()) if (running.same === same) return running.record.pull;
    const token = body.token?.trim() || null;
    const record: PullRecord = {
      pull: freshPull(this.#o.newId(), body, this.#o.clock.now()),
      local_dir: body.local_dir ?? null,
      allow_patterns: patternsOf(body.allow_patterns),
      own_token: token !== null,
    };
    this.#all.set(record.pull.id, record);
    this.#records.save(record);
    this.#start(record, token);
    return record.pull;
  }

  /**
   * Resolves when the pull has succeeded; throws its error otherwise. Throws `hub_unreachable` already while the pull
   * keeps retrying, once the hub has not answered for some seconds: the next call joins it.
   */
  async wait(id: string): Promise<HubPulled> {
    const running = this.#running.get(id);
    if (running) await this.#endedOrUnheard(running);
    const { status, path, commit, files_total, bytes_total, model_id: model } = this.get(id);
    if (status === "succeeded" && path !== null && commit !== null)
      return { path, revision: commit, files: files_total ?? 0, bytes: bytes_total ?? 0 };
    throw running?.error ?? new SvcError("hub_pull_ended", { model, how: "interrupted" });
  }

  async #endedOrUnheard(running: Running): Promise<void> {
    const { clock } = this.#o;
    const { id } = running.record.pull;
    while (this.#running.get(id) === running) {
      const { unheard } = running;
      if (unheard && clock.monotonic() - unheard.sinceMs >= TOLD_AFTER_MS) {
        const { host, why } = unheard.error.data as { host: string; why: string };
        throw new SvcError("hub_unreachable", { host, why, goes_on: true }, { cause: unheard.error });
      }
      const enough = new AbortController();
      await Promise.race([running.ended, pause(clock, 500, enough.signal).catch(() => undefined)]);
      enough.abort(new Error("the wait is over"));
    }
  }

  /** Newest first. */
  list(): HubPull[] {
    return [...this.#all.values()].map(({ pull }) => pull).reverse();
  }

  get(id: string): HubPull {
    const record = this.#all.get(id);
    if (!record) throw new SvcError("hub_pull_not_found", { id: id.slice(0, 64) });
    return record.pull;
  }

  /** Ends a pull; downloaded bytes are kept for the next. An ended pull stays unchanged. */
  async cancel(id: string): Promise<HubPull> {
    const { model_id: model } = this.get(id);
    const running = this.#running.get(id);
    running?.stop.abort(new SvcError("hub_pull_ended", { model, how: "cancelled" }));
    await running?.ended;
    return this.get(id);
  }

  models(): Promise<HubModel[]> {
    return listModels(this.#places());
  }

  async remove(modelId: string): Promise<string[]> {
    for (const { record } of this.#running.values())
      if (record.pull.model_id === modelId) throw new SvcError("hub_model_in_use", { model: modelId });
    const gone = await removeModel(modelId, this.#places());
    if (gone.length === 0) throw new SvcError("hub_model_not_here", { model: modelId });
    return gone;
  }

  /** Checks a model of the user's own and lists it from now on. */
  async adopt(path: string): Promise<HubAdopted> {
    const model = await checkModel(absolute(path));
    await rememberOwn(this.#o.home, model);
    return model;
  }

  /** H2. Resolves when every pull has closed its files. */
  async stop(): Promise<void> {
    this.#stopping = true;
    for (const { record, stop } of this.#running.values())
      stop.abort(new SvcError("hub_pull_ended", { model: record.pull.model_id, how: "interrupted" }));
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  #places(): ModelPlaces {
    const { cacheDir } = this.#o.settings();
    const others = [...this.#all.values()].flatMap(({ pull, local_dir }) =>
      local_dir !== null && pull.path !== null ? [pull.path] : [],
    );
    return { home: this.#o.home, cache: cacheDir === null ? null : join(cacheDir, "hub"), others };
  }

  #start(record: PullRecord, token: string | null): void {
    const { pull } = record;
    const asked = { ...record, ...pull, token };
    const running: Running = {
      record,
      same: sameness(asked),
      stop: new AbortController(),
      ended: Promise.resolve(),
      error: null,
      unheard: null,
      speed: [],
      hintAt: 0,
      later: null,
    };
    this.#running.set(pull.id, running);
    running.ended = this.#run(running, token).finally(() => {
      running.later?.cancel();
      this.#running.delete(pull.id);
    });
  }

  async #run(running: Running, token: string | null): Promise<void> {
    const { record, stop } = running;
    try {
      await this.#o.emit("pull.started", { pull: record.pull });
      const { url, token: configured, cacheDir } = this.#o.settings();
      const place = await this.#placeOf(record, cacheDir);
      const { path } = await this.#inTurn(place, running, () => this.#pull(running, place, url, token ?? configured));
      record.pull = { ...record.pull, path };
      await this.#end(record, "succeeded", null);
    } catch (e) {
      const error = asSvcError(e);
      running.error = error;
      const ended = stop.signal.aborted && error instanceof SvcError && error.code === "hub_pull_ended";
      const how = ended ? (error as SvcError<"hub_pull_ended">).data.how : "failed";
      await this.#end(record, how, error);
    }
  }

  async #placeOf(record: PullRecord, cacheDir: string | null): Promise<Place> {
    const { model_id: id } = record.pull;
    const { mark, home } = this.#o;
    if (record.local_dir !== null) return FolderPlace.at(absolute(record.local_dir), mark);
    if (cacheDir !== null) return new CachePlace(join(cacheDir, "hub"), id, mark);
    return FolderPlace.at(join(homeLayout.models(home), ...id.split("/")), mark);
  }

  /** Two pulls never write into one place at once. */
  async #inTurn<T>(place: Place, running: Running, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(place.key);
    let free!: () => void;
    const mine = new Promise<void>((resolve) => (free = resolve));
    const both = Promise.all([before, mine]).then(() => undefined);
    this.#last.set(place.key, both);
    try {
      if (before) {
        const message = "Another pull writes to the same place and goes first.";
        this.#report(running, { phase: "waiting", note: { kind: "queued", message, retry_in_seconds: null } });
        await orAborted(before, running.stop.signal);
        this.#report(running, { note: null });
      }
      running.stop.signal.throwIfAborted();
      return await work();
    } finally {
      free();
      if (this.#last.get(place.key) === both) this.#last.delete(place.key);
    }
  }

  async #pull(running: Running, place: Place, baseUrl: string, token: string | null): Promise<HubPulled> {
    const { record, stop } = running;
    const { clock, random, userAgent, stallMs = STALL_MS, patience = PATIENCE } = this.#o;
    const transfer = new Transfer({ baseUrl, token, userAgent, stallMs });
    try {
      return await pullModel({
        client: new HubClient(transfer, token),
        place,
        asked: { model: record.pull.model_id, revision: record.pull.revision },
        commit: record.pull.commit,
        patterns: record.allow_patterns,
        reserved: () => this.#reserved(running),
        report: (change) => this.#report(running, change),
        unheard: (error) => {
          if (error === null) running.unheard = null;
          else running.unheard = { error, sinceMs: running.unheard?.sinceMs ?? clock.monotonic() };
        },
        now: clock.now,
        clock,
        random,
        patience,
        signal: stop.signal,
      });
    } finally {
      transfer.close();
    }
  }

  /** Bytes that the other pulls will still write, to any disk: an overestimate is better than a full disk. */
  #reserved(except: Running): number {
    return [...this.#running.values()]
      .filter((one) => one !== except)
      .reduce((sum, { record: { pull } }) => sum + Math.max(0, (pull.bytes_total ?? 0) - pull.bytes_done), 0);
  }

  #report(running: Running, change: Partial<PullProgress>): void {
    const { record } = running;
    const before = record.pull;
    record.pull = { ...before, ...change };
    if (change.bytes_done !== undefined) record.pull.bytes_per_second = this.#speed(running, change.bytes_done);
    if (change.commit !== undefined && change.commit !== before.commit) this.#records.save(record);
    this.#hintSoon(running);
  }

  #speed(running: Running, bytes: number): number | null {
    const at = this.#o.clock.monotonic();
    const { speed } = running;
    if (at - (speed.at(-1)?.at ?? 0) > 100 || speed.length === 0) speed.push({ at, bytes });
    while (speed.length > 2 && at - (speed[0]?.at ?? at) > SPEED_WINDOW_MS) speed.shift();
    const [first] = speed;
    if (!first || at - first.at < 200) return running.record.pull.bytes_per_second;
    return Math.max(0, Math.round(((bytes - first.bytes) * 1_000) / (at - first.at)));
  }

  #hintSoon(running: Running): void {
    const { clock } = this.#o;
    const left = running.hintAt - clock.monotonic();
    if (running.later) return;
    if (left <= 0) return this.#hintNow(running);
    running.later = clock.setTimer(left, () => this.#hintNow(running));
    running.later.unref?.();
  }

  #hintNow(running: Running): void {
    running.later = null;
    running.hintAt = this.#o.clock.monotonic() + HINT_EVERY_MS;
    if (running.record.pull.status === "running") this.#o.hint(running.record.pull);
  }

  async #end(record: PullRecord, status: Exclude<HubPull["status"], "running">, error: SvcError | null): Promise<void> {
    const said =
      error?.toJobError() ??
      (status === "interrupted"
        ? describeError("hub_pull_ended", { model: record.pull.model_id, how: "interrupted" })
        : null);
    record.pull = {
      ...record.pull,
      status,
      phase: null,
      note: null,
      bytes_per_second: null,
      error: said,
      ended_at: new Date(this.#o.clock.now()).toISOString(),
    };
    try {
      this.#records.save(record);
    } catch {
      // Still recorded as running: the next control plane resumes it, and finds it done.
    }
    await this.#o.emit("pull.ended", { pull: record.pull });
  }
}

function freshPull(id: string, body: HubPullBody, now: number): HubPull {
  return {
    id,
    model_id: body.model_id,
    revision: body.revision ?? "main",
    commit: null,
    status: "running",
    phase: "resolving",
    path: null,
    files_total: null,
    files_done: 0,
    bytes_total: null,
    bytes_done: 0,
    bytes_per_second: null,
    note: null,
    error: null,
    started_at: new Date(now).toISOString(),
    ended_at: null,
  };
}

/** The key by which two requests are the same pull. */
const sameness = (body: Omit<HubPullBody, "revision"> & { revision?: string | null | undefined }): string =>
  JSON.stringify([
    body.model_id,
    body.revision ?? "main",
    body.local_dir ? absolute(body.local_dir) : null,
    patternsOf(body.allow_patterns),
    body.token?.trim() || null,
  ]);

const patternsOf = (given: HubPullBody["allow_patterns"]): string[] | null =>
  typeof given === "string" ? [given] : (given ?? null);

/** `~` is the user's home. The SDKs send absolute paths; any other relative path is refused. */
function absolute(path: string): string {
  const full = withoutTilde(path);
  if (isAbsolute(full)) return resolve(full);
  throw new SvcError(
    "invalid_request",
    { summary: `The path ${path} is relative, and the control plane does not know your current folder.` },
    { errors: [{ field: "local_dir", message: "must be absolute, or begin with ~/" }] },
  );
}
