// `svc wait` ends when runs have met a condition. The conditions are in `wait/conditions.ts`, the loop is in
// `wait/until-met.ts`.

import { value } from "../argv.ts";
import type { Command } from "../command.ts";
import { withJobs } from "../store.ts";
import { printJson } from "../text.ts";
import { spanOf } from "../times.ts";
import { CONDITIONS, conditionOf } from "./wait/conditions.ts";
import { waitForAll } from "./wait/until-met.ts";

/** The exit code of `timeout`. */
const TIMED_OUT = 124;
const NEVER = 1;

export const wait: Command = {
  name: "wait",
  args: "<job> [...jobs]",
  summary: "Wait until runs have ended, started, saved a checkpoint, or reached a value of a metric",
  options: [
    {
      flags: "--for <condition>",
      what: 'finished (default), succeeded, running, checkpoint, or a metric: "metric:loss<0.1"',
      values: CONDITIONS,
    },
    { flags: "--timeout <time>", what: "Give up after this time: 90s, 30m, 2h (default: never)" },
  ],
  exits: [
    ["0", "every run met the condition"],
    ["1", "a run ended without meeting it"],
    ["3", "no such job"],
    ["124", "the time of --timeout ran out first; the runs continue"],
    ["130", "interrupted; the runs continue"],
  ],
  examples: [
    "svc wait 4k2m && svc logs 4k2m -n 20",
    "svc wait 4k2m 4k9x --for succeeded --timeout 2h",
    'svc wait last --for "metric:loss<0.1"',
  ],
  completes: () => "active jobs",
  run(input, io) {
    const make = conditionOf(value(input, "for") ?? "finished");
    const limit = value(input, "timeout");
    const until = limit === undefined ? Infinity : performance.now() + spanOf("--timeout", limit);
    return withJobs(io, input.args, async (reads, ids) => {
      const waiting = new Map(ids.map((id) => [id, make(id)]));
      const results = await waitForAll(reads, waiting, until, io, async (id, result) => {
        if (!input.json) await io.out(`${id}\t${result}\t${reads.job(id)?.status ?? "removed"}\n`);
      });
      if (input.json)
        await printJson(io, {
          jobs: ids.map((id) => ({ id, result: results.get(id) ?? null, status: reads.job(id)?.status ?? null })),
        });
      if (io.interrupted.aborted) return 130;
      const all = [...results.values()];
      return all.includes("ended") ? NEVER : all.includes("timeout") ? TIMED_OUT : 0;
    });
  },
};
