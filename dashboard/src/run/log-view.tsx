import { useEffect, useRef, useState } from "react";
import { api } from "../api.ts";
import { plural } from "../format.ts";
import { onHint } from "../sync.ts";
import { LogPane, type LogState } from "./log-pane.ts";

const LOADING: LogState = { phase: "loading", message: "", following: true, earlier: false, lines: 0 };

const same = (a: LogState, b: LogState) =>
  a.phase === b.phase &&
  a.message === b.message &&
  a.following === b.following &&
  a.earlier === b.earlier &&
  a.lines === b.lines;

/** The live log of a run. */
export function LogView({ jobId, ended, tall }: { jobId: string; ended: boolean; tall?: boolean }) {
  const view = useRef<HTMLDivElement>(null);
  const pane = useRef<LogPane | null>(null);
  const [state, setState] = useState(LOADING);
  useEffect(() => {
    if (!view.current) return;
    const made = new LogPane(jobId, view.current, (next) => setState((before) => (same(before, next) ? before : next)));
    pane.current = made;
    const stop = onHint((hint) => {
      if (hint.type === "opened" || (hint.type === "log.advanced" && hint.job_id === jobId)) void made.pull();
    });
    return () => {
      stop();
      made.close();
      pane.current = null;
    };
  }, [jobId]);
  useEffect(() => {
    if (ended) void pane.current?.pull();
  }, [ended]);
  const quiet =
    state.phase === "loading" ? "Reading the log…" : ended ? "The run wrote nothing." : "Nothing written yet.";
  return (
    <div className={tall ? "log log-tall" : ended ? "log log-short" : "log"}>
      <div className="log-bar">
        <span className="quiet num">
          {state.lines > 0 ? plural(state.lines, "line") + (state.earlier ? " shown" : "") : ""}
        </span>
        {state.earlier && (
          <button type="button" className="button small" onClick={() => void pane.current?.loadEarlier()}>
            Load earlier
          </button>
        )}
        <a className="button small" href={api.logUrl(jobId)} download={`${jobId}.log`}>
          Download
        </a>
      </div>
      <div ref={view} className="log-view" role="log" aria-live="off" aria-label="Log of the run" tabIndex={0} />
      {state.lines === 0 && state.phase !== "failed" && <p className="log-empty">{quiet}</p>}
      {state.phase === "failed" && (
        <p className="log-failed" role="status">
          {state.message}
        </p>
      )}
      {!state.following && (
        <button type="button" className="button log-jump" onClick={() => pane.current?.jumpToEnd()}>
          Jump to end <span aria-hidden="true">↓</span>
        </button>
      )}
    </div>
  );
}
