// The read interface of a home, with or without a running control plane. The API, the CLI and the SDKs' records use it.

import type { Redactor } from "../domain/redaction.ts";
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
import type { ChosenOld } from "../domain/retention.ts";
import type { SeenTime } from "../domain/retention-time.ts";
import type { HomeRetention } from "../schemas/retention.ts";
import type { SinkStatus } from "../schemas/sink-status.ts";
import type { NamedSeries, SeriesNames, SeriesShape } from "./summary-reads.ts";
import type { OldAsk, OldRunRow } from "./retention-reads.ts";
import type { SeriesPlace } from "./series-reads.ts";
import type { All } from "./tables.ts";

export interface Reads {
  /** Null when the job does not exist. */
  job(id: string): JobRecord | null;
  /** A full id from a unique prefix, or from `last`: the newest. Throws `job_not_found`, `job_removed` or `job_ambiguous`. */
  resolveJobId(prefix: string): string;
  jobs(query: JobsQuery): JobsPage;
  /** How many jobs have each status. */
  countByStatus(filter?: JobsFilter): Partial<Record<JobStatus, number>>;
  timeline(id: string): Timeline;
  /** The machines or gangs that the job has used, one after the other, and what it waits for now. */
  placements(id: string): Placements;
  /** The place of these jobs' machines, by job; a job whose place is unknown is absent. */
  regions(ids: readonly string[]): Map<string, string>;
  /** Medians of earlier placements with this provider and these GPUs; null without any. */
  startTimes(provider: string, gpus: string): StartTimes | null;
  metrics(id: string, query: MetricsQuery): Metrics;
  /** Names of the job's metrics, and how many points each has. */
  seriesList(id: string): SeriesList["series"];
  /** Points of some series from an index on, at most `maxPoints` of each, with extremes kept. */
  seriesPoints(id: string, places: readonly SeriesPlace[], maxPoints: number): SeriesColumns[];
  /** Names of the metrics of these jobs. */
  seriesNames(ids: readonly string[], max: number): SeriesNames;
  /** The series of these jobs with these names. */
  namedSeries(ids: readonly string[], names: readonly string[]): NamedSeries[];
  /** Extremes of the points from an index on, and samples of all points before `to`. */
  seriesShape(series: number, from: number, to: number, samples: number): SeriesShape;
  /** Size in bytes of the log stored for the job (redacted, without metric records). */
  logBytes(id: string): number;
  /** At most `max` bytes of the stored log from `offset`. */
  readLog(id: string, offset: number, max: number): Buffer;
  /** The offset at which the last `lines` lines begin. */
  logTailOffset(id: string, lines: number): number;
  /** When each part of the log was written: ascending (offset, milliseconds since the epoch), from the entry that covers `from`. */
  logTimes(id: string, from: number): { offset: number; at_ms: number }[];
  /** When a run was removed; null if no run with this id was removed. */
  removedAt(id: string): string | null;
  checkpoints(id: string): CheckpointFile[];
  /**
   * Path on disk of a recorded checkpoint file, or null when the record does not name it. Never built from the caller's
   * text.
   */
  checkpointPath(id: string, path: string): string | null;
  /** The progress of the copies in the job's sinks; in the order of its spec. */
  sinks(id: string): SinkStatus[];
  /** Names of files that hold a secret are masked, unless the code is to be `restored`. */
  code(id: string, options?: { restored?: boolean }): CodeSnapshot | null;
  /** The id of the longer list of files excluded from the job's code, or null. */
  leftOutList(id: string): string | null;
  /** How rented machines have turned out: by provider and GPU, and the hosts that are avoided. */
  hostStats(): HostStats;
  /** Machines that may cost money now; a local run is never one. */
  machines(): LedgerMachine[];
  /** The costs of machines, and the part of them that was waste. */
  costs(query: CostsQuery): CostReport;
  /** The limits of the home, what counts under them, and the runs that wait for them. */
  limits(): HomeLimits;
  /** The retention rule of the home, what it has removed and what it would remove now. */
  retention(now: number, seen?: SeenTime): HomeRetention;
  /** The ended runs that are removed by age, and how many stay for what reason. */
  oldRuns(ask: OldAsk): ChosenOld<OldRunRow>;
  /** The cost of each machine of a job; null if the job does not exist. */
  receipt(id: string): Receipt | null;
  /** The handle (JSON) of the machine that a node of a job holds now; null if it holds none. */
  heldHandle(jobId: string, node: number): string | null;
  /** Feed entries with seq > since, oldest first. */
  eventsSince(since: number, options: { jobId?: string; limit: number }): FeedEvent[];
  latestSeq(): number;
}

/** What masks the secrets of a home in its reads. */
export interface ShownSecrets {
  /** Masks secrets that became known after the log was written. */
  redactor: () => Redactor;
  /** A record before secrets in it were masked. */
  unseal: (record: object) => object;
  /** Called once the store is open, which names further secrets. */
  learn?: (all: All) => void;
}
