// `svc logs`: the stored log of a run, followed until the run ends if asked. logs/log-reading.ts does the work.

import { messageOf } from "../../errors/index.ts";
import { usage, value, whole } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { withJob } from "../store.ts";
import { momentOf } from "../times.ts";
import type { LogsOptions } from "./logs/log-printer.ts";
import { printLog } from "./logs/log-reading.ts";

export const logs: Command = {
  name: "logs",
  args: "<job>",
  summary: "Print the log of a run",
  options: [
    { flags: "-f, --follow", what: "Keep printing until the run ends" },
    { flags: "-n, --tail <n>", what: "Only the last n lines; with --around, n lines on each side (default 10)" },
    { flags: "--since <time>", what: "Only lines since this time: 10m (ago), 14:03, 2026-11-26T14:03:00Z" },
    { flags: "--until <time>", what: "Only lines until this time, in the same formats" },
    { flags: "--around <where>", what: "Only the lines around a time or a line number" },
    { flags: "-t, --timestamps", what: "Prefix each line with its timestamp" },
    { flags: "--rank <n>", what: "Print only the lines of one rank, when a launcher starts several" },
    { flags: "--grep <pattern>", what: "Print only the lines that match a regular expression" },
    { flags: "-i, --ignore-case", what: "Let --grep match upper and lower case alike" },
    { flags: "--exit-status", what: "Exit with the exit code of the run" },
    {
      flags: "--raw",
      what: "Print raw bytes to a terminal too; a pipe or file always gets them, terminal escapes included",
    },
  ],
  exits: [
    ["3", "no such job"],
    ["130", "interrupted; the run continues"],
    [
      "5",
      "with -f: the run is unfinished and no control plane is running it; with --exit-status: the run is unfinished",
    ],
    ["*", "with --exit-status: the exit code of the run, 1 if it has none"],
  ],
  examples: [
    "svc logs -f 4k2m",
    "svc logs 4k2m -n 50 -t",
    "svc logs 4k2m --since 10m --grep 'loss|nan' -i",
    "svc logs 4k2m --around 14:03 -n 30",
    "svc logs -f 4k2m --exit-status",
  ],
  run: (input, io) => {
    const [since, until] = [value(input, "since"), value(input, "until")];
    const options: LogsOptions = {
      follow: input.flags.has("follow"),
      tail: whole(input, "tail", { min: 0, max: 1_000_000_000 }),
      sinceMs: since === undefined ? undefined : momentOf("--since", since),
      untilMs: until === undefined ? undefined : momentOf("--until", until),
      around: value(input, "around"),
      grep: patternOf(input),
      timestamps: input.flags.has("timestamps"),
      exitStatus: input.flags.has("exit-status"),
      rank: whole(input, "rank", { min: 0, max: 1_000_000 }),
      raw: input.flags.has("raw"),
      json: input.json,
    };
    if (options.around !== undefined && (since !== undefined || until !== undefined || options.follow))
      throw usage("--around cannot be combined with --since, --until or --follow.", "Give one of them.");
    if (options.untilMs !== undefined && options.follow)
      throw usage("--until and --follow contradict each other.", "Give one of them.");
    return withJob(io, input.args[0] ?? "", (reads, id) => printLog(reads, id, options, io));
  },
};

function patternOf(input: Input): RegExp | undefined {
  const pattern = value(input, "grep");
  const ignoresCase = input.flags.has("ignore-case");
  if (pattern === undefined) {
    if (ignoresCase) throw usage("--ignore-case has nothing to match.", "Give --grep PATTERN as well.");
    return undefined;
  }
  try {
    return new RegExp(pattern, ignoresCase ? "iu" : "u");
  } catch (cause) {
    throw usage(
      `--grep \`${pattern}\` is not a regular expression: ${messageOf(cause)}.`,
      "Write a backslash before a character that stands for itself, as in `\\[rank3\\]`.",
    );
  }
}
