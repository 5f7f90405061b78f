// The search of the Log tab. The server searches the whole log; this hook keeps the place among the matches.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { runApi } from "../run-api.ts";
import { setParams } from "../place.ts";
import type { LogPane } from "./log-pane.ts";
import { searchQuery, type LogFilter } from "./log-source.ts";

export interface Finder {
  /** Number of matches; null without a search. */
  matches: number | null;
  capped: boolean;
  /** The index of the current match, counted from 0. */
  at: number | null;
  /** The line of the current match. */
  line: number | null;
  busy: boolean;
  /** Moves to the next or previous match; the address then contains its line. */
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

/** Moves from match to match through the whole log; the server searches. */
export function useFinder(of: {
  jobId: string;
  pane: LogPane | null;
  filter: LogFilter | null;
  q: string;
  /** The line in the address. */
  line: number | null;
  totalLines: number;
}): Finder {
  const { jobId, pane, filter, q, line: given, totalLines } = of;
  const [place, setPlace] = useState(NOWHERE);
  // The view may change while a request is running; the search itself stays.
  const latest = useRef({ place, pane, filter, q, given });
  useEffect(() => void (latest.current = { place, pane, filter, q, given }), [place, pane, filter, q, given]);
  const turn = useRef(0);
  const found = useRef("");
  const errors = filter?.errors ?? false;
  const tag = filter?.tag ?? null;

  /** Scrolls to a line, also when a filter is active. */
  const goToLine = useCallback(
    async (line: number) => {
      const { filter, pane } = latest.current;
      if (filter === null) return pane?.goTo(line - 1);
      const { from } = await runApi.logSearch(jobId, { ...searchQuery(filter), near: line, count: 1 });
      pane?.goTo(from);
    },
    [jobId],
  );

  const moves = useMemo(() => {
    const words: LogFilter = { q, errors, tag };
    /** The line at the upper edge. */
    const topLine = () => {
      const { pane } = latest.current;
      return pane?.rowAt(pane.top)?.line ?? 1;
    };
    const find = async (where: { from: number } | { near: number }): Promise<number | null> => {
      const mine = ++turn.current;
      setPlace((before) => ({ ...before, busy: true }));
      try {
        const answer = await runApi.logSearch(jobId, { ...searchQuery(words), ...where, count: 1 });
        if (mine !== turn.current) return null;
        const line = answer.lines[0]?.line ?? null;
        const { matches, capped } = answer;
        setPlace({ matches, capped, at: line === null ? null : answer.from, line, busy: false });
        if (line !== null) await goToLine(line);
        return line;
      } catch {
        // The pane reports an unreachable server; the next step tries again.
        if (mine === turn.current) setPlace((before) => ({ ...before, busy: false }));
        return null;
      }
    };
    return {
      goToLine: (line: number) => void goToLine(line).catch(() => undefined),
      /** Starts from the visible lines; with a filter, from the current match. */
      begin() {
        turn.current++;
        if (q === "") return;
        // A copied address contains the line of its match.
        const { given, place } = latest.current;
        const again = found.current === "" ? given : found.current === q ? place.line : null;
        found.current = q;
        void find({ near: again ?? topLine() });
      },
      async step(by: 1 | -1) {
        const { matches, at } = latest.current.place;
        if (q === "" || !matches) return;
        const line = await find(at === null ? { near: topLine() } : { from: (at + by + matches) % matches });
        if (line !== null) setParams({ line: String(line) });
      },
      async count() {
        const answer = await runApi.logSearch(jobId, { ...searchQuery(words), from: 0, count: 0 }).catch(() => null);
        if (answer) setPlace((before) => ({ ...before, matches: answer.matches, capped: answer.capped }));
      },
      forget: () => setPlace((before) => ({ ...before, at: null, line: null })),
    };
  }, [jobId, q, errors, tag, goToLine]);

  useEffect(() => moves.begin(), [moves]);
  // A new pane shows the current match; a match that is found later scrolls to itself.
  useEffect(() => {
    const { place, q } = latest.current;
    if (pane && q !== "" && place.line !== null) goToLine(place.line).catch(() => undefined);
  }, [pane, goToLine]);
  useEffect(() => {
    if (q === "" || totalLines === 0) return;
    const timer = setTimeout(() => void moves.count(), 1_000);
    return () => clearTimeout(timer);
  }, [q, totalLines, moves]);
  return useMemo(
    () => ({ ...(q === "" ? NOWHERE : place), ...moves, step: (by: 1 | -1) => void moves.step(by) }),
    [q, place, moves],
  );
}
