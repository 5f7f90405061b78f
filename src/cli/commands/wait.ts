// `svc wait` ends when runs have met a condition. It looks into the store once a second at most, which costs less than
// a request, so that it works before, during and after a restart of the control plane.

import { SvcError } from "../../errors/index.ts";
import { findControlPlane } from "../../../sdk/discover.ts";
import { value } from "../argv.ts";
import type { Command } from "../command.ts";
import { sleep, type Io } from "../io.ts";
import { storeOfHome, type OpenReads } from "../store.ts";
import { spanOf } from "../times.ts";
import { CONDITIONS, conditionOf, type Awaited } from "../wait-for.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printJson } from "../text.ts";

const LOOK_MS_FIRST = 100;
const LOOK_MS_MAX = 1_000;
const LOOK_MS_GROWTH = 1.3;
/** How often the control plane is looked for while nothing happens. */
const ALIVE_MS = 10_000;
/** The exit code of `timeout`. */
const TIMED_OUT = 124;
const NEVER = 1;

type Result = "met" | "ended" | "timeout";

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
  async run(input, io) {
    const make = conditionOf(value(input, "for") ?? "finished");
    const limit = value(input, "timeout");
    const until = limit === undefined ? Infinity : performance.now() + spanOf("--timeout", limit);
    const reads = await storeOfHome(io);
    if (!reads) throw new SvcError("job_not_found", { id: input.args[0] ?? "" });
    try {
      const ids = [...new Set(input.args.map((prefix) => reads.resolveJobId(prefix)))];
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
    } finally {
      reads.close();
    }
  },
};

async function waitForAll(
  reads: OpenReads,
  waiting: Map<string, Awaited>,
  until: number,
  io: Io,
  tell: (id: string, result: Result) => Promise<void>,
): Promise<Map<string, Result>> {
  const results = new Map<string, Result>();
  const settle = async (id: string, result: Result): Promise<void> => {
    waiting.delete(id);
    results.set(id, result);
    await tell(id, result);
  };
  const alive = new AliveWords(io);
  for (let pause = LOOK_MS_FIRST; !io.interrupted.aborted; pause = Math.min(LOOK_MS_MAX, pause * LOOK_MS_GROWTH)) {
    for (const [id, awaited] of waiting) {
      const verdict = awaited.look(reads);
      if (verdict === "met") await settle(id, "met");
      if (verdict !== "never") continue;
      io.err(safeField(awaited.whyNever(reads)));
      await settle(id, "ended");
    }
    if (waiting.size === 0) break;
    const left = until - performance.now();
    if (left <= 0) {
      io.err(
        `The condition was not met in time: ${[...waiting.keys()].join(", ")}. The runs continue, and cost as before.`,
      );
      for (const id of waiting.keys()) await settle(id, "timeout");
      break;
    }
    await alive.look();
    await sleep(Math.min(pause, left), io.interrupted);
  }
  return results;
}

/** Says when no control plane drives the runs, and when one does again. */
class AliveWords {
  readonly #io: Io;
  #lookedAt = -Infinity;
  #isAway = false;

  constructor(io: Io) {
    this.#io = io;
  }

  async look(): Promise<void> {
    if (performance.now() - this.#lookedAt < ALIVE_MS) return;
    this.#lookedAt = performance.now();
    const isAway = (await findControlPlane(this.#io.home())).state === "none";
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    this.#io.err(
      isAway
        ? "No control plane is running, so these runs make no progress. This command keeps waiting; `svc serve` starts one."
        : "A control plane is running these runs again.",
    );
  }
}
