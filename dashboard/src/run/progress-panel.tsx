// How far a running script is, and when it ends at this pace, read from its log.

import { useCallback, useEffect, useState } from "react";
import { progressOf, type MarkedLine, type ScriptProgress } from "../../../src/domain/progress.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { age, duration, number, timeOfDay } from "../format.ts";
import { useNow } from "../parts/now.ts";
import { coalesced, onHint } from "../sync.ts";
import { runApi } from "./run-api.ts";

const FIRST_LINES = 200;
const LAST_LINES = 40;
const EVERY_MS = 3_000;
/** Without a new mark for this long, the pace says nothing about the end. */
const QUIET_MS = 10 * 60_000;

const marked = (lines: readonly { text: string; at_ms: number }[]): MarkedLine[] =>
  lines.map(({ text, at_ms }) => ({ text, atMs: at_ms }));

function useProgress(job: JobRecord): ScriptProgress | null {
  const { id, started_at } = job;
  const args = JSON.stringify(job.args);
  const [progress, setProgress] = useState<ScriptProgress | null>(null);
  const read = useCallback(() => {
    let first: MarkedLine[] | null = null;
    return async () => {
      const from = started_at === null ? 0 : Date.parse(started_at);
      const [head, tail] = await Promise.all([
        first ?? runApi.logLines(id, { at_ms: from, count: FIRST_LINES }).then(({ lines }) => marked(lines)),
        runApi.logLines(id, { count: LAST_LINES }),
      ]);
      if (head.length >= FIRST_LINES) first = head;
      setProgress(progressOf(head, marked(tail.lines), JSON.parse(args) as string[]));
    };
  }, [id, started_at, args]);
  useEffect(() => {
    let gone = false;
    const ask = read();
    // An unread log shows no progress; the next line asks again.
    const reading = coalesced(EVERY_MS, async () => {
      if (!gone) await ask().catch(() => undefined);
    });
    reading.mark();
    const stop = onHint((hint) => {
      if (hint.type === "opened" || (hint.type === "log.advanced" && hint.job_id === id)) reading.mark();
    });
    return () => {
      gone = true;
      stop();
    };
  }, [id, read]);
  return progress;
}

export function ProgressPanel({ job }: { job: JobRecord }) {
  const progress = useProgress(job);
  const now = useNow();
  if (progress === null) return null;
  const { unit, done, total, share, endsAtMs } = progress;
  const left = endsAtMs === null ? null : endsAtMs - now;
  return (
    <section className="panel progress-panel" aria-label="Progress">
      <p className="progress-words">
        <strong className="num">{Math.floor(share * 100)} %</strong>
        <span className="quiet num">
          {unit === "" ? "" : `${unit} `}
          {number(done)} of {number(total)}
        </span>
        <span
          className="progress-left num"
          title="Estimated from the pace of its log since the script began on this machine"
        >
          {share >= 1 || left === null || left < -QUIET_MS
            ? ""
            : left <= 0
              ? "about to end"
              : `about ${roughWords(roughly(left))} left, until ${timeOfDay(now + roughly(left))}`}
        </span>
      </p>
      <progress max={1} value={share} aria-label={`${Math.floor(share * 100)} percent done`} />
    </section>
  );
}

const roughWords = (ms: number): string => (ms < 3_600_000 ? age(ms) : duration(ms));

/** An estimate to the second would flicker and promise too much. */
function roughly(ms: number): number {
  const grain = ms < 120_000 ? 5_000 : ms < 3_600_000 ? 60_000 : 600_000;
  return Math.max(grain, Math.round(ms / grain) * grain);
}
