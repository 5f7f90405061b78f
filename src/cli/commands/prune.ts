// Removes many ended runs at once, by age, except the best; or sets the rule by which the control plane does so (prune/rule.ts).

import { parseBest } from "../../schemas/best.ts";
import { bytes } from "../../domain/bytes.ts";
import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import { ageMs } from "../../domain/retention.ts";
import type { RetentionRule } from "../../schemas/retention.ts";
import { oneOf, usage, value, whole } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { withStore } from "../store.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson } from "../text.ts";
import { pruneRule } from "./prune/rule.ts";
import { removeAll, sizeOf } from "./rm/remove-runs.ts";

export const prune: Command = {
  name: "prune",
  args: "[rule] [clear]",
  summary: "Delete old finished runs once, or by a rule, optionally keeping the best",
  options: [
    { flags: "--older-than <age>", what: "Only runs that ended longer ago than this: 30d, 12h, 2w (required)" },
    {
      flags: "--keep-best <metric:n>",
      what: "Keep the n runs whose metric was lowest at any step; `acc:3:max` keeps the highest",
    },
    { flags: "--keep-newest <n>", what: "Keep the n runs that ended last" },
    { flags: "--provider <provider>", what: "Only runs at this provider", values: PROVIDER_NAMES },
    { flags: "--label <label>", what: "Only runs with this label" },
    { flags: "--dry-run", what: "Only list what would be removed" },
  ],
  exits: [
    ["5", "control plane not reachable"],
    ["130", "interrupted; runs removed before that are gone"],
  ],
  examples: [
    "svc prune --older-than 30d --dry-run",
    "svc prune --older-than 2w --keep-best loss:3",
    "svc prune rule --older-than 30d --keep-newest 20",
    "svc prune rule",
    "svc prune rule clear",
  ],
  async run(input, io) {
    const [word, verb, ...more] = input.args;
    if ((word !== undefined && word !== "rule") || more.length > 0)
      throw usage("`svc prune` takes options, or the word `rule`.", "`svc rm JOB` removes runs by name.");
    const isRule = word === "rule";
    const narrowed = ["provider", "label"].some((name) => input.values.has(name)) || input.flags.has("dry-run");
    if (isRule && narrowed)
      throw usage(
        "--provider, --label and --dry-run do not apply to `svc prune rule`.",
        "`svc prune --dry-run` lists what would be removed.",
      );
    const rule = ruleOf(input, isRule);
    if (isRule) return pruneRule(verb, rule, input, io);
    if (rule === null) throw noAge();
    const provider = oneOf(input, "provider", PROVIDER_NAMES);
    const ask = { ...rule, provider, label: value(input, "label"), now: Date.now() };
    const { goes, kept } = await withStore(io, (reads) => reads?.oldRuns(ask) ?? { goes: [], kept: null });
    if (input.flags.has("dry-run")) {
      const shown = goes.map(({ id, label, ended_at, disk_bytes }) => ({
        id,
        label,
        ended_at: ended_at === null ? null : new Date(ended_at).toISOString(),
        disk_bytes,
      }));
      if (input.json) await printJson(io, { dry_run: true, jobs: shown, kept });
      else
        for (const job of shown) await io.out(`${job.id}\t${sizeOf(job.disk_bytes)}\t${safeField(job.label ?? "-")}\n`);
      if (!input.json && io.tty)
        io.err(`${shown.length} runs would be removed. Run again without --dry-run to remove them.`);
      return 0;
    }
    const { removed, failed, first } = await removeAll(
      goes.map(({ id }) => id),
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

/** Null without --older-than, which a rule is shown without. */
function ruleOf(input: Input, isRule: boolean): RetentionRule | null {
  const text = value(input, "older-than");
  const keep = value(input, "keep-best") ?? null;
  const newest = whole(input, "keep-newest", { min: 1, max: 100_000 }) ?? null;
  if (text === undefined && isRule && keep === null && newest === null) return null;
  if (text === undefined || ageMs(text) === null) throw noAge();
  if (keep !== null && parseBest(keep) === null)
    throw usage("--keep-best must be METRIC:N or METRIC:N:max.", "For example `--keep-best loss:3`.");
  return { older_than: text, keep_best: keep, keep_newest: newest };
}

const noAge = () =>
  usage("`svc prune` needs --older-than with a number and m, h, d or w.", "For example `--older-than 30d`.");
