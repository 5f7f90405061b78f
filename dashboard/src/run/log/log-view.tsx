// The Log tab of a run, and the end of its log for the overview. `log-pane.ts` draws the lines, outside React.

import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent } from "react";
import { api } from "../../api.ts";
import { plural } from "../../format.ts";
import { useKeys } from "../../keys.ts";
import { usePlace } from "../../router.tsx";
import { onHint } from "../../sync.ts";
import { remember, remembered, setParams } from "../place.ts";
import { LogPane, ROW_PX, type LogState } from "./log-pane.ts";
import { askLog, type LogFilter } from "./log-source.ts";
import { LogTools } from "./log-tools.tsx";
import { useFinder } from "./use-finder.ts";

const NO_TAGS: readonly string[] = [];
const LOADING: LogState = {
  phase: "loading",
  message: "",
  following: true,
  rows: 0,
  totalLines: 0,
  capped: false,
  fresh: 0,
  tags: NO_TAGS,
};

const same = (a: LogState, b: LogState) => (Object.keys(a) as (keyof LogState)[]).every((name) => a[name] === b[name]);

const withAll = (before: readonly string[], tags: readonly string[]) =>
  tags.every((tag) => before.includes(tag)) ? before : [...new Set([...before, ...tags])];

/** A log in an element, kept up to date. */
function useLogPane(jobId: string, ended: boolean, filter: LogFilter | null) {
  const view = useRef<HTMLDivElement>(null);
  const [pane, setPane] = useState<LogPane | null>(null);
  const [state, setState] = useState(LOADING);
  const [tags, setTags] = useState<readonly string[]>([]);
  const key = JSON.stringify(filter);
  useEffect(() => {
    if (!view.current) return;
    const ask = askLog(jobId, JSON.parse(key) as LogFilter | null);
    const made = new LogPane(view.current, ask, (next) => {
      setState((before) => (same(before, next) ? before : next));
      // Prefixes that a filter hides still exist.
      setTags((before) => withAll(before, next.tags));
    });
    setPane(made);
    const stop = onHint((hint) => {
      if (hint.type === "opened" || (hint.type === "log.advanced" && hint.job_id === jobId)) void made.refresh();
    });
    return () => {
      stop();
      made.close();
      setState(LOADING);
    };
  }, [jobId, key]);
  useEffect(() => {
    if (ended) void pane?.refresh();
  }, [ended, pane]);
  return { view, pane, state, tags };
}

const emptyWords = (state: LogState, ended: boolean, filtered: boolean) =>
  state.phase === "loading"
    ? "Reading the log…"
    : filtered
      ? state.totalLines > 0
        ? "No line matches."
        : "No output yet."
      : ended
        ? "The run wrote no output."
        : "No output yet.";

/** As high as its text, within bounds. */
const PEEK_PX = { min: 84, max: 340 };

/** The end of a run's log, for the overview. */
export function LogPeek({ jobId, ended }: { jobId: string; ended: boolean }) {
  const { view, pane, state } = useLogPane(jobId, ended, null);
  useEffect(() => pane?.look({ wrap: false, times: false, numbers: false, mark: "", picked: null }), [pane]);
  return (
    <div className="log">
      <div
        ref={view}
        className="log-view"
        role="log"
        aria-live="off"
        aria-label="Log of the run"
        tabIndex={0}
        style={{ height: `${Math.max(PEEK_PX.min, Math.min(PEEK_PX.max, state.rows * ROW_PX + 2))}px` }}
      />
      <LogWords state={state} ended={ended} filtered={false} />
      <JumpButton state={state} pane={pane} />
    </div>
  );
}

function LogWords({ state, ended, filtered }: { state: LogState; ended: boolean; filtered: boolean }) {
  if (state.phase === "failed")
    return (
      <p className="log-failed" role="status">
        {state.message}
      </p>
    );
  return state.rows === 0 ? <p className="log-empty">{emptyWords(state, ended, filtered)}</p> : null;
}

function JumpButton({ state, pane }: { state: LogState; pane: LogPane | null }) {
  if (state.following || state.rows === 0) return null;
  return (
    <button type="button" className="button log-jump" onClick={() => pane?.follow()}>
      {state.fresh > 0 ? `${plural(state.fresh, "new line")}, ` : ""}
      {state.fresh > 0 ? "jump to end" : "Jump to end"} <span aria-hidden="true">↓</span>
    </button>
  );
}

/** The whole log of a run, with its tools. The search is in the address. */
export function LogView({ jobId, ended, nodes }: { jobId: string; ended: boolean; nodes: number }) {
  const { query } = usePlace();
  const q = query.get("q") ?? "";
  const errors = query.get("errors") === "1";
  const tag = query.get("tag");
  const only = query.get("only") === "1";
  const line = Number(query.get("line")) || null;
  const filter = useMemo<LogFilter | null>(() => {
    const text = only ? q : "";
    return errors || tag !== null || text !== "" ? { q: text, errors, tag } : null;
  }, [only, q, errors, tag]);
  const [look, setLook] = useState(() => ({ wrap: remembered("log.wrap"), times: remembered("log.times") }));
  const { view, pane, state, tags } = useLogPane(jobId, ended, filter);
  const finder = useFinder({ jobId, pane, filter, q, line, totalLines: state.totalLines });
  const picked = finder.line ?? line;
  useEffect(() => pane?.look({ ...look, numbers: true, mark: q, picked }), [pane, look, q, picked]);

  const gone = useRef<string | null>(null);
  useEffect(() => {
    // Once per address: afterwards the user scrolls.
    if (pane === null || line === null || state.phase !== "ready" || gone.current === `${jobId}/${line}`) return;
    gone.current = `${jobId}/${line}`;
    finder.goToLine(line);
  }, [pane, line, state.phase, jobId, finder]);

  useKeys("Log", [
    { keys: "/", does: "Search the log", run: () => document.getElementById("log-search")?.focus() },
    { keys: "f", does: "Follow the end", run: () => pane?.follow() },
    ...(q === ""
      ? []
      : [
          { keys: "n", does: "Next match", run: () => finder.step(1) },
          { keys: "N", does: "Previous match", run: () => finder.step(-1) },
        ]),
    { keys: "g", does: "Go to the beginning of the log" },
    { keys: "G", does: "Go to the end of the log" },
  ]);
  const pick = (event: MouseEvent) => {
    const clicked = (event.target as Element).closest<HTMLElement>("a[data-line]");
    const number = clicked?.dataset["line"];
    if (number === undefined) return;
    event.preventDefault();
    gone.current = `${jobId}/${number}`;
    finder.forget();
    setParams({ line: query.get("line") === number ? null : number });
  };
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "G") pane?.follow();
    else if (event.key === "g") pane?.goTo(0);
    else return;
    event.preventDefault();
  };
  const change = (name: "wrap" | "times") => {
    remember(`log.${name}`, !look[name]);
    setLook({ ...look, [name]: !look[name] });
  };
  return (
    <div className="log log-tall">
      <LogTools
        state={state}
        finder={finder}
        filter={{ q, errors, tag, only }}
        look={look}
        onLook={change}
        tags={tags}
        nodes={nodes}
        download={api.logUrl(jobId)}
        name={`${jobId}.log`}
      />
      <div className="log-frame">
        {/* Keys and clicks reach the log itself, which scrolls and is focused like any text. */}
        <div
          ref={view}
          className="log-view"
          role="log"
          aria-live="off"
          aria-label="Log of the run"
          tabIndex={0}
          onClick={pick}
          onKeyDown={keys}
        />
        <LogWords state={state} ended={ended} filtered={filter !== null} />
        <JumpButton state={state} pane={pane} />
      </div>
    </div>
  );
}
