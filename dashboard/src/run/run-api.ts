// API calls that only the run page uses.

import type { CodeDiff } from "../../../src/schemas/code.ts";
import type { LogLines, LogMatches } from "../../../src/schemas/log.ts";
import type { JobChange } from "../../../src/schemas/change.ts";
import type { JobRecord, ResumePoints } from "../../../src/schemas/job.ts";
import type { CheckpointsRemoved } from "../../../src/schemas/removal.ts";
import type { SeriesList, SeriesPoints } from "../../../src/schemas/series.ts";
import type { SinkStatus } from "../../../src/schemas/sink-status.ts";
import { call, get, job, query, sendJson } from "../api.ts";

/** Means the current state of the project directory, in place of another run's id. */
export const DIRECTORY = ".";

export const runApi = {
  change: (id: string, change: JobChange) => sendJson<JobRecord>("PATCH", job(id), change),
  logLines: (id: string, q: Record<string, string | number>, signal?: AbortSignal) =>
    get<LogLines>(`${job(id)}/logs/lines${query(q)}`, signal),
  logSearch: (id: string, q: Record<string, string | number>, signal?: AbortSignal) =>
    get<LogMatches>(`${job(id)}/logs/search${query(q)}`, signal),
  series: (id: string, signal?: AbortSignal) => get<SeriesList>(`${job(id)}/series`, signal),
  points: (id: string, places: readonly { id: number; from: number }[], signal?: AbortSignal) =>
    get<SeriesPoints>(
      `${job(id)}/series/points?of=${places.map((place) => `${place.id}:${place.from}`).join(",")}`,
      signal,
    ),
  digest: (id: string, path: string, signal?: AbortSignal) =>
    get<{ sha256: string }>(`${job(id)}/checkpoint-digest${query({ path })}`, signal),
  resumePoints: (id: string) => get<ResumePoints>(`${job(id)}/resume-points`),
  removeCheckpoints: (id: string, names: readonly string[], dryRun: boolean) =>
    sendJson<CheckpointsRemoved>("POST", `${job(id)}/checkpoints/remove`, { names, dry_run: dryRun }),
  sinks: (id: string) => get<{ sinks: SinkStatus[] }>(`${job(id)}/sinks`),
  codeDiff: (id: string, other: string) =>
    get<CodeDiff>(other === DIRECTORY ? `${job(id)}/code/changes` : `${job(id)}/code/diff${query({ with: other })}`),
  checkpointsTar: (id: string) => `${job(id)}/checkpoints.tar`,
  codeTar: (id: string) => `${job(id)}/code.tar`,
  recordUrl: (id: string) => job(id),
  /** The beginning of a file; null if it is not text. */
  async codeFile(id: string, path: string, max: number): Promise<string | null> {
    const response = await call(runApi.codeFileUrl(id, path), { headers: { range: `bytes=0-${max - 1}` } });
    const text = (response.headers.get("content-type") ?? "").startsWith("text/plain");
    if (!text) void response.body?.cancel();
    return text ? response.text() : null;
  },
  codeFileUrl: (id: string, path: string) =>
    `${job(id)}/code/files/${path.split("/").map(encodeURIComponent).join("/")}`,
};
