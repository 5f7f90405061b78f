// Views of the list of runs that this browser keeps by name: an address with its filter, columns and order.

import { useState, useSyncExternalStore, type FormEvent } from "react";
import { Link, usePlace } from "../router.tsx";

const KEY = "svc.views";
const VIEWS_MAX = 40;
const NAME_MAX = 60;
const QUERY_MAX = 4_000;
const CHANGED = "svc:views";

interface SavedView {
  name: string;
  query: string;
}

const isView = (value: unknown): value is SavedView =>
  typeof value === "object" &&
  value !== null &&
  "name" in value &&
  "query" in value &&
  typeof value.name === "string" &&
  typeof value.query === "string";

function parsed(text: string): SavedView[] {
  try {
    const values: unknown = JSON.parse(text);
    return Array.isArray(values) ? values.filter(isView).slice(0, VIEWS_MAX) : [];
  } catch {
    return [];
  }
}

/** Without storage the views last as long as the page. */
let here = "[]";
function stored(): string {
  try {
    return (here = localStorage.getItem(KEY) ?? "[]");
  } catch {
    return here;
  }
}

function keep(change: (views: SavedView[]) => SavedView[]): void {
  // Read again first: another tab may have saved one.
  here = JSON.stringify(change(parsed(stored())).slice(0, VIEWS_MAX));
  try {
    localStorage.setItem(KEY, here);
  } catch {
    // See above.
  }
  dispatchEvent(new Event(CHANGED));
}

function subscribe(listener: () => void): () => void {
  addEventListener(CHANGED, listener);
  addEventListener("storage", listener);
  return () => {
    removeEventListener(CHANGED, listener);
    removeEventListener("storage", listener);
  };
}

export function SavedViews() {
  const { query } = usePlace();
  const text = useSyncExternalStore(subscribe, stored);
  const views = parsed(text);
  const [name, setName] = useState("");
  const current = query.toString();
  const save = (event: FormEvent) => {
    event.preventDefault();
    const saved = { name: name.trim().slice(0, NAME_MAX), query: current.slice(0, QUERY_MAX) };
    if (saved.name === "") return;
    keep((before) => [saved, ...before.filter((each) => each.name !== saved.name)]);
    setName("");
  };
  return (
    <details className="pop saved-views">
      <summary className="button small">
        Views{views.length > 0 && <span className="count num">{views.length}</span>}
      </summary>
      <div className="menu">
        {views.length > 0 && (
          <ul className="plain">
            {views.map((view) => (
              <li key={view.name} className="saved-view">
                <Link
                  href={view.query === "" ? "/" : `/?${view.query}`}
                  aria-current={view.query === current ? "page" : undefined}
                >
                  <bdi>{view.name}</bdi>
                </Link>
                <button
                  type="button"
                  className="compared-out"
                  aria-label={`Delete the view ${view.name}`}
                  onClick={() => keep((before) => before.filter((each) => each.name !== view.name))}
                >
                  ×
                </button>
              </li>
            ))}
          </ul>
        )}
        <form onSubmit={save} className="save-view">
          <input
            type="text"
            className="search"
            placeholder="Name of this view"
            aria-label="Name of this view"
            maxLength={NAME_MAX}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <button type="submit" className="button small" disabled={name.trim() === ""}>
            Save
          </button>
        </form>
        <p className="quiet small-text">Filter, columns and order, kept in this browser.</p>
      </div>
    </details>
  );
}
