// `svc jobs`: the list of runs, once or until Ctrl-C.

import { bytes } from "../../domain/bytes.ts";
import { spentText } from "../../domain/money.ts";
import { SvcError } from "../../errors/index.ts";
import type { JobRecord, JobStatus } from "../../schemas/job.ts";
import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import type { ProviderName } from "../../schemas/spec.ts";
import { oneOf, usage, value, whole } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { sleep, type Io } from "../io.ts";
import { storeOfHome, type OpenReads } from "../store.ts";
import { hasEnded, JOB_FIELDS, JOB_STATUSES } from "../../schemas/names.ts";
import { toJson } from "../../domain/terminal-text.ts";
import { duration, instant, picked, printJson, statusPaint, table } from "../text.ts";

export interface JobsOptions {
  ids: string[];
  provider?: ProviderName | undefined;
  label?: string | undefined;
  status?: JobStatus | undefined;
  limit?: number | undefined;
  all: boolean;
  watch: boolean;
  json: boolean;
  fields: Input["fields"];
}

export const jobs: Command = {
  name: "jobs",
  args: "[...jobs]",
  summary: "List runs, newest first, or only the given ones",
  options: [
    {
      flags: "--status <status>",
      what: `Only runs with this status: ${JOB_STATUSES.join(", ")}`,
      values: JOB_STATUSES,
    },
    { flags: "--provider <provider>", what: "Only runs at this provider", values: PROVIDER_NAMES },
    { flags: "--label <label>", what: "Only runs with this label" },
    { flags: "--limit <n>", what: "At most this many (default 50)" },
    { flags: "--all", what: "List all runs" },
    { flags: "--watch", what: "Keep showing changes until Ctrl-C" },
  ],
  exits: [
    ["3", "no such job"],
    ["130", "interrupted (how --watch ends)"],
  ],
  fields: [...JOB_FIELDS, "region"],
  examples: ["svc jobs", "svc jobs --status running --json id,label,cost_usd", "svc jobs 4k2m"],
  async run(input, io) {
    const options: JobsOptions = {
      ids: input.args,
      provider: oneOf(input, "provider", PROVIDER_NAMES),
      label: value(input, "label"),
      status: oneOf(input, "status", JOB_STATUSES),
      limit: whole(input, "limit", { min: 1, max: 1_000_000 }),
      all: input.flags.has("all"),
      watch: input.flags.has("watch"),
      json: input.json,
      fields: input.fields,
    };
    if (options.all && options.limit !== undefined)
      throw usage("--all and --limit contradict each other.", "Give one of them.");
    const narrowed = [options.status, options.provider, options.label, options.limit].some(
      (given) => given !== undefined,
    );
    if (options.ids.length > 0 && (narrowed || options.all))
      throw usage("Filters and --all do not apply to runs given by id.", "Leave out the other options, or the ids.");
    return listJobs(options, io);
  },
};

async function listJobs(options: JobsOptions, io: Io): Promise<number> {
  const reads = await storeOfHome(io);
  if (options.watch) return watch(reads, options, io);
  try {
    const { jobs: list, next } = collect(reads, options);
    if (options.json) {
      await printJson(io, asJson(reads, options, list, next));
      return 0;
    }
    await io.out(list.length > 0 ? jobsTable(io, list, regionsOf(reads, list)) : "");
    if (!io.tty) return 0;
    if (list.length === 0)
      io.err(options.status ? `No run is ${options.status}.` : "No runs yet. `svc run` shows how to start one.");
    if (next !== null) io.err("More runs exist: use --limit N or --all.");
    return 0;
  } finally {
    reads?.close();
  }
}

/** Draws the list each second until the command is interrupted. A home may get its store meanwhile. */
async function watch(first: OpenReads | null, options: JobsOptions, io: Io): Promise<number> {
  let reads = first;
  let before = "";
  try {
    while (!io.interrupted.aborted) {
      reads ??= await storeOfHome(io);
      const { jobs: list, next } = collect(reads, options);
      const shown = options.json
        ? `${toJson(asJson(reads, options, list, next))}\n`
        : jobsTable(io, list, regionsOf(reads, list));
      // On a terminal the durations change, so every poll is drawn; a pipe gets a new block only when a run changed.
      const key = io.tty
        ? shown
        : JSON.stringify(list.map((j) => [j.id, j.status, j.exit_code, j.cost_usd, reason(j)]));
      if (key !== before) {
        const start = options.json ? "" : io.tty ? CLEAR : before ? "\n" : "";
        await io.out(start + (shown || (io.tty ? "No runs yet.\n" : "")));
      }
      before = key;
      await sleep(1_000, io.interrupted);
    }
    return 130;
  } finally {
    reads?.close();
  }
}

const CLEAR = "\u001b[H\u001b[2J";

const regionsOf = (reads: OpenReads | null, list: readonly JobRecord[]): Regions =>
  reads?.regions(list.map(({ id }) => id)) ?? new Map();

function asJson(reads: OpenReads | null, { fields }: JobsOptions, list: JobRecord[], next: string | null): object {
  if (fields === null) return { jobs: list, next_cursor: next };
  const regions = fields.includes("region") ? regionsOf(reads, list) : new Map<string, string>();
  return picked(
    list.map((job) => ({ ...job, region: regions.get(job.id) ?? null })),
    fields,
  );
}

/** Reads pages from the store until there are enough. */
function collect(reads: OpenReads | null, options: JobsOptions): { jobs: JobRecord[]; next: string | null } {
  const want = options.all ? Number.POSITIVE_INFINITY : (options.limit ?? 50);
  const list: JobRecord[] = [];
  let cursor: string | null = null;
  if (options.ids.length > 0) return { jobs: named(reads, options.ids), next: null };
  if (!reads) return { jobs: list, next: null };
  do {
    const page = reads.jobs({
      limit: Math.min(500, want - list.length),
      ...(options.status ? { status: [options.status] } : {}),
      ...(options.provider ? { provider: options.provider } : {}),
      ...(options.label === undefined ? {} : { label: options.label }),
      ...(cursor ? { cursor } : {}),
    });
    list.push(...page.jobs);
    if (page.next_cursor !== null && page.next_cursor === cursor)
      throw new SvcError("internal_error", { why: "a page of runs returned its own cursor" });
    cursor = page.next_cursor;
  } while (cursor !== null && list.length < want);
  return { jobs: list, next: cursor };
}

/** In the order of the arguments, each once. Throws `job_not_found`, `job_ambiguous`. */
function named(reads: OpenReads | null, prefixes: readonly string[]): JobRecord[] {
  const ids = prefixes.map((prefix) => {
    if (!reads) throw new SvcError("job_not_found", { id: prefix });
    return reads.resolveJobId(prefix);
  });
  return [...new Set(ids)].flatMap((id) => reads?.job(id) ?? []);
}

type Regions = ReadonlyMap<string, string>;

/** A pipe gets the columns that it has always had first, and the newer ones before the reason. */
function jobsTable(io: Io, list: JobRecord[], regions: Regions): string {
  const none = io.tty ? "-" : "";
  const where = { title: "REGION", leaves: 7 };
  const rate = { title: "$/H", right: true, leaves: 8 };
  const rateOf = ({ price_per_hour_usd: usd }: JobRecord): string =>
    usd === null ? none : io.tty ? (usd === 0 ? "-" : usd.toFixed(2)) : String(usd);
  const newer = (j: JobRecord): string[] => [regions.get(j.id) ?? none, rateOf(j)];
  return table(
    io,
    [
      { title: "JOB" },
      { title: "STATUS", paint: statusPaint },
      { title: "EXIT", right: true, leaves: 3 },
      { title: "PROVIDER", leaves: 5 },
      ...(io.tty ? [where] : []),
      { title: "GPUS", leaves: 4 },
      ...(io.tty ? [rate] : []),
      { title: "COST", right: true },
      { title: "CREATED", leaves: 2 },
      { title: "TOOK", right: true },
      { title: "LABEL", shrinks: true },
      { title: "ENTRYPOINT", shrinks: true, leaves: 1 },
      { title: "SIZE", right: true, leaves: 6 },
      ...(io.tty ? [] : [where, rate]),
    ],
    list.map((j) => {
      const [region = none, price = none] = newer(j);
      return [
        j.id,
        j.status,
        j.exit_code === null ? none : String(j.exit_code),
        j.provider,
        ...(io.tty ? [region] : []),
        j.nodes > 1 ? `${j.nodes}x ${j.gpus}` : j.gpus,
        ...(io.tty ? [price] : []),
        io.tty ? spentText(j) : String(j.cost_usd),
        instant(io, j.created_at),
        took(io, j),
        j.label ?? none,
        j.entrypoint,
        size(io, j),
        ...(io.tty ? [] : [region, price]),
      ];
    }),
    list.map(reason),
  );
}

/** Its disk usage here, once it has ended and was measured. */
function size(io: Io, { disk_bytes }: JobRecord): string {
  if (disk_bytes === null) return io.tty ? "-" : "";
  return io.tty ? bytes(disk_bytes) : String(disk_bytes);
}

/** Why it ended in this way, or a note on its current state. */
const reason = (j: JobRecord): string | null => j.note?.message ?? j.error?.message ?? null;

/** From the submission to the end, including the release of the machine. */
function took(io: Io, j: JobRecord): string {
  const from = Date.parse(j.created_at);
  const to = j.ended_at ? Date.parse(j.ended_at) : hasEnded(j.status) ? from : Date.now();
  return io.tty ? duration(to - from) : (Math.max(0, to - from) / 1000).toFixed(1);
}
