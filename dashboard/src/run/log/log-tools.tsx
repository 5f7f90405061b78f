// The toolbar of the Log tab: the search, and which lines are shown.

import { useEffect, useState, type KeyboardEvent } from "react";
import { plural } from "../../format.ts";
import { setParams } from "../place.ts";
import type { LogState } from "./log-pane.ts";
import { tagChoices } from "./log-source.ts";
import type { Finder } from "./use-finder.ts";

const TYPING_MS = 250;

/** The toolbar of a log. */
export function LogTools(props: {
  state: LogState;
  finder: Finder;
  filter: { q: string; errors: boolean; tag: string | null; only: boolean };
  look: { wrap: boolean; times: boolean };
  onLook: (name: "wrap" | "times") => void;
  /** Prefixes of nodes and ranks that were seen so far. */
  tags: readonly string[];
  nodes: number;
  download: string;
  name: string;
}) {
  const { state, filter, look, onLook } = props;
  const tags = tagChoices(props.tags, props.nodes, filter.tag);
  return (
    <div className="log-tools">
      <Search finder={props.finder} q={filter.q} />
      {filter.q !== "" && (
        <Toggle on={filter.only} onClick={() => setParams({ only: filter.only ? null : "1" })}>
          Only matching
        </Toggle>
      )}
      <Toggle on={filter.errors} onClick={() => setParams({ errors: filter.errors ? null : "1" })}>
        Errors only
      </Toggle>
      {(tags.length > 1 || filter.tag !== null) && (
        <select
          className="log-tags"
          aria-label="Node or rank"
          value={filter.tag ?? ""}
          onChange={(event) => setParams({ tag: event.target.value || null })}
        >
          <option value="">All nodes and ranks</option>
          {tags.map((tag) => (
            <option key={tag} value={tag}>
              {tag}
            </option>
          ))}
        </select>
      )}
      <span className="log-tools-end">
        <span className="quiet num log-count" role="status">
          {countWords(state, filter)}
        </span>
        <Toggle on={look.wrap} onClick={() => onLook("wrap")}>
          Wrap
        </Toggle>
        <Toggle on={look.times} onClick={() => onLook("times")}>
          Times
        </Toggle>
        <a className="button small" href={props.download} download={props.name}>
          Download
        </a>
      </span>
    </div>
  );
}

function countWords(state: LogState, filter: { errors: boolean; tag: string | null; only: boolean; q: string }) {
  if (state.totalLines === 0) return "";
  const filtered = filter.errors || filter.tag !== null || (filter.only && filter.q !== "");
  const all = plural(state.totalLines, "line");
  return filtered ? `${state.rows.toLocaleString("en-US")}${state.capped ? "+" : ""} of ${all}` : all;
}

function Toggle({ on, onClick, children }: { on: boolean; onClick: () => void; children: string }) {
  return (
    <button type="button" className="button small toggle" aria-pressed={on} onClick={onClick}>
      {children}
    </button>
  );
}

function Search({ finder, q }: { finder: Finder; q: string }) {
  // Typed text that was not searched yet.
  const [typed, setTyped] = useState<string | null>(null);
  const text = typed ?? q;
  useEffect(() => {
    if (typed === null) return;
    const timer = setTimeout(() => {
      setParams({ q: typed || null, ...(typed ? {} : { only: null }) });
      setTyped(null);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      if (text !== q) {
        setTyped(null);
        setParams({ q: text || null });
      } else finder.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && text !== "") {
      event.preventDefault();
      setTyped(null);
      setParams({ q: null, only: null });
    }
  };
  const none = q !== "" && finder.matches === 0;
  return (
    <div className={none ? "log-search log-search-none" : "log-search"} role="search">
      <input
        id="log-search"
        type="search"
        aria-label="Search the whole log"
        placeholder="Search the whole log"
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={keys}
      />
      {q !== "" && (
        <>
          <span className="log-found num" role="status">
            {foundWords(finder)}
          </span>
          <button
            type="button"
            className="log-step"
            aria-label="Previous match (N)"
            title="Previous match (N)"
            disabled={!finder.matches}
            onClick={() => finder.step(-1)}
          >
            ↑
          </button>
          <button
            type="button"
            className="log-step"
            aria-label="Next match (n)"
            title="Next match (n)"
            disabled={!finder.matches}
            onClick={() => finder.step(1)}
          >
            ↓
          </button>
        </>
      )}
    </div>
  );
}

function foundWords({ matches, at, capped }: Finder): string {
  if (matches === null) return "…";
  if (matches === 0) return "none";
  const all = matches.toLocaleString("en-US") + (capped ? "+" : "");
  return at === null ? all : `${(at + 1).toLocaleString("en-US")} / ${all}`;
}
