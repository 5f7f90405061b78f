import { useEffect, useMemo, useRef, useState } from "react";
import { runApi } from "../run-api.ts";
import type { LogPane } from "./log-pane.ts";
import { searchQuery, type LogFilter } from "./log-source.ts";

export interface Finder {
  /** Matches of the words; null while nothing is looked for. */
  matches: number | null;
  capped: boolean;
  /** Which of them one is at, counted from 0. */
  at: number | null;
  /** The line that one is at. */
  line: number | null;
  busy: boolean;
  step(by: 1 | -1): void;
  goToLine(line: number): void;
  forget(): void;
}

interface Place {
  matches: number | null;
  capped: boolean;
  at: number | null;
  line: number | null;
  busy: boolean;
}
const NOWHERE: Place = { matches: null, capped: false, at: null, line: null, busy: false };

/** Goes from match to match through the whole log, which the server searches. */
export function useFinder(of: {
  jobId: string;
  pane: LogPane | null;
  filter: LogFilter | null;
  q: string;
  totalLines: number;
}): Finder {
  const { jobId, pane, filter, q, totalLines } = of;
  const [place, setPlace] = useState(NOWHERE);
  const latest = useRef(place);
  useEffect(() => void (latest.current = place), [place]);
  const turn = useRef(0);

  const moves = useMemo(() => {
    const words: LogFilter = { q, errors: filter?.errors ?? false, tag: filter?.tag ?? null };
    /** Brings a line into view, also where only some lines are shown. */
    const goToLine = async (line: number) => {
      if (filter === null) return pane?.goTo(line - 1);
      const found = await runApi.logSearch(jobId, { ...searchQuery(filter), near: line, count: 1 });
      pane?.goTo(found.from);
    };
    const find = async (where: { from: number } | { near: number }) => {
      const mine = ++turn.current;
      setPlace((before) => ({ ...before, busy: true }));
      try {
        const found = await runApi.logSearch(jobId, { ...searchQuery(words), ...where, count: 1 });
        if (mine !== turn.current) return;
        const line = found.lines[0]?.line ?? null;
        setPlace({
          matches: found.matches,
          capped: found.capped,
          at: line === null ? null : found.from,
          line,
          busy: false,
        });
        if (line !== null) await goToLine(line);
      } catch {
        // The pane tells of a server that does not answer; the next step asks again.
        if (mine === turn.current) setPlace((before) => ({ ...before, busy: false }));
      }
    };
    return {
      goToLine: (line: number) => void goToLine(line).catch(() => undefined),
      find: (where: { from: number } | { near: number }) => void find(where),
      step(by: 1 | -1) {
        const { matches, at } = latest.current;
        if (q === "" || !matches) return;
        if (at === null) return void find({ near: pane?.rowAt(pane.top)?.line ?? 1 });
        void find({ from: (at + by + matches) % matches });
      },
      async count() {
        const found = await runApi.logSearch(jobId, { ...searchQuery(words), from: 0, count: 0 }).catch(() => null);
        if (found) setPlace((before) => ({ ...before, matches: found.matches, capped: found.capped }));
      },
      forget: () => setPlace((before) => ({ ...before, at: null, line: null })),
    };
  }, [jobId, pane, filter, q]);

  useEffect(() => {
    turn.current++;
    // From what is in view on.
    if (q !== "") moves.find({ near: pane?.rowAt(pane.top)?.line ?? 1 });
  }, [q, moves, pane]);
  useEffect(() => {
    if (q === "" || totalLines === 0) return;
    const timer = setTimeout(() => void moves.count(), 1_000);
    return () => clearTimeout(timer);
  }, [q, totalLines, moves]);
  return useMemo(() => ({ ...(q === "" ? NOWHERE : place), ...moves }), [q, place, moves]);
}
