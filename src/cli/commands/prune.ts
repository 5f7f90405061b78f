// Removes many ended runs at once, by age, except the best.

import { bestOf, parseBest } from "../../schemas/best.ts";
import { bytes } from "../../domain/bytes.ts";
import type { JobRecord } from "../../schemas/job.ts";
import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import { oneOf, usage, value } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { everyJob, withStore, type OpenReads } from "../store.ts";
import { OUTCOMES } from "../../schemas/names.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson } from "../text.ts";
import { UNIT_MS } from "../times.ts";
import { removeAll } from "./rm/remove-runs.ts";

export const prune: Command = {
  name: "prune",
  args: "",
  summary: "Delete old finished runs, optionally keeping the best",
  options: [
    { flags: "--older-than <age>", what: "Only runs that ended longer ago than this: 30d, 12h, 2w (required)" },
    {
      flags: "--keep-best <metric:n>",
      what: "Keep the n runs with the lowest value of a metric; `acc:3:max` keeps the highest",
    },
    { flags: "--provider <provider>", what: "Only runs at this provider", values: PROVIDER_NAMES },
    { flags: "--label <label>", what: "Only runs with this label" },
    { flags: "--dry-run", what: "Only list what would be removed" },
  ],
  exits: [
    ["5", "control plane not reachable"],
    ["130", "interrupted; runs removed before that are gone"],
  ],
  examples: ["svc prune --older-than 30d --dry-run", "svc prune --older-than 2w --keep-best loss:3"],
  async run(input, io) {
    const olderMs = age(input);
    const keep = value(input, "keep-best");
    const best = keep === undefined ? null : parseBest(keep);
    if (keep !== undefined && best === null)
      throw usage("--keep-best must be METRIC:N or METRIC:N:max.", "For example `--keep-best loss:3`.");
    const provider = oneOf(input, "provider", PROVIDER_NAMES);
    const label = value(input, "label");
    const query = {
      status: [...OUTCOMES],
      ...(provider ? { provider } : {}),
      ...(label === undefined ? {} : { label }),
    };
    const chosen = await withStore(io, (reads) => {
      if (!reads) return [];
      const ended = [...everyJob(reads, query)];
      const kept = new Set(best ? bestOf(ended, best, (job) => valueOf(reads, job, best)) : []);
      return ended.filter((job) => !kept.has(job) && Date.now() - Date.parse(job.ended_at ?? job.created_at) > olderMs);
    });
    const shown = chosen.map(({ id, label, ended_at, disk_bytes }) => ({ id, label, ended_at, disk_bytes }));
    if (input.flags.has("dry-run")) {
      if (input.json) await printJson(io, { dry_run: true, jobs: shown });
      else
        for (const job of shown) await io.out(`${job.id}\t${sizeOf(job.disk_bytes)}\t${safeField(job.label ?? "-")}\n`);
      if (!input.json && io.tty)
        io.err(`${shown.length} runs would be removed. Run again without --dry-run to remove them.`);
      return 0;
    }
    const { removed, failed, first } = await removeAll(
      chosen.map(({ id }) => id),
      io,
    );
    if (input.json) await printJson(io, { dry_run: false, removed, failed });
    else {
      for (const { id, freed_bytes } of removed) await io.out(`${id}\tremoved\t${bytes(freed_bytes)}\n`);
      for (const { id, error } of failed.slice(1)) io.err(`${id}: ${safeField(error.message)}`);
      if (io.tty) io.err(`${removed.length} runs removed.`);
    }
    if (io.interrupted.aborted) return 130;
    if (first) throw first;
    return 0;
  },
};

const sizeOf = (size: number | null): string => (size === null ? "size unknown" : bytes(size));

function age(input: Input): number {
  const text = value(input, "older-than");
  const [, count, unit = ""] = /^([0-9]{1,6})([mhdw])$/.exec(text ?? "") ?? [];
  if (count === undefined)
    throw usage("`svc prune` needs --older-than with a number and m, h, d or w.", "For example `--older-than 30d`.");
  return Number(count) * (UNIT_MS[unit] ?? 0);
}

/** The best value that the run ever logged. */
function valueOf(
  reads: OpenReads,
  job: JobRecord,
  { metric, order }: { metric: string; order: "min" | "max" },
): number | null {
  const points = reads.metrics(job.id, { name: metric }).series[metric] ?? [];
  const values = points.flatMap(({ value: v }) => (typeof v === "number" ? [v] : []));
  if (values.length === 0) return null;
  return values.reduce((a, b) => (order === "min" ? Math.min(a, b) : Math.max(a, b)));
}
