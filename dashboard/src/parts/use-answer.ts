import { useCallback, useEffect, useRef, useState } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import { asProblem } from "../api.ts";
import { onHint } from "../sync.ts";

export interface Answer<T> {
  data: T | null;
  problem: Problem | null;
  /** When `data` was read, in milliseconds since the epoch. */
  at: number | null;
  busy: boolean;
  reload: () => void;
}

/** Reads once, again after each reconnection, and on demand. The data stays on the page until newer data arrives. */
export function useAnswer<T>(read: () => Promise<T>): Answer<T> {
  const [state, setState] = useState<Omit<Answer<T>, "reload">>({ data: null, problem: null, at: null, busy: true });
  const latest = useRef(read);
  useEffect(() => void (latest.current = read));
  const asked = useRef(0);
  const ask = useCallback(() => {
    const mine = ++asked.current;
    latest.current().then(
      (data) => mine === asked.current && setState({ data, problem: null, at: Date.now(), busy: false }),
      (error: unknown) =>
        mine === asked.current && setState((before) => ({ ...before, problem: asProblem(error), busy: false })),
    );
  }, []);
  const reload = useCallback(() => {
    setState((before) => ({ ...before, busy: true }));
    ask();
  }, [ask]);
  useEffect(() => {
    ask();
    const stop = onHint((hint) => hint.type === "opened" && ask());
    return () => {
      asked.current = -1;
      stop();
    };
  }, [ask]);
  return { ...state, reload };
}
