// The filter bar of the runs page.

import { useEffect, useRef, useState, type RefObject } from "react";
import type { JobStatus } from "../../../src/schemas/job.ts";
import type { Summary } from "../../../src/schemas/plan.ts";
import { PROVIDER_NAMES } from "../../../src/providers/descriptors.ts";
import { words } from "../format.ts";
import { Link, navigate } from "../router.tsx";
import { filteredPath, type RunFilter } from "../run-filter.ts";
import { SortSelect } from "./column-menu.tsx";
import type { View } from "./columns.ts";
import { ACTIVE_STATUSES, JOB_STATUSES } from "../../../src/schemas/names.ts";

type Status = RunFilter["status"];

const FILTERS: readonly Status[] = [null, "active", "succeeded", "failed", "cancelled"];
const MORE_FILTERS = JOB_STATUSES.filter((status) => !FILTERS.includes(status));
const TYPED_MS = 200;

interface RunFiltersProps {
  view: View;
  filter: RunFilter;
  summary: Summary | null;
  search: RefObject<HTMLInputElement | null>;
}

/** The filters of the run list. Every choice is in the address. */
export function RunFilters({ view, filter, summary, search }: RunFiltersProps) {
  const shown = FILTERS.includes(filter.status) ? FILTERS : [...FILTERS, filter.status];
  const to = (status: Status) => filteredPath({ ...filter, status });
  return (
    <div className="filter-row">
      <nav className="filters" aria-label="Filter by status">
        {shown.map((status) => (
          <Link
            key={status ?? "all"}
            href={to(status)}
            className="filter"
            aria-current={status === filter.status ? "page" : undefined}
          >
            {status === null ? "All" : words(status)} <Count n={summary && countOf(summary, status)} />
          </Link>
        ))}
        {filter.tags.map((tag) => (
          <Link
            key={tag}
            href={filteredPath({ ...filter, tags: filter.tags.filter((each) => each !== tag) })}
            className="filter filter-tag"
            aria-current="page"
          >
            <bdi>{tag}</bdi> <span aria-hidden="true">×</span>
            <span className="hidden">: a tag that all these runs have; show also those without it</span>
          </Link>
        ))}
        {filter.archived && (
          <Link href={filteredPath({ ...filter, archived: false })} className="filter" aria-current="page">
            Archived <span aria-hidden="true">×</span>
            <span className="hidden">: show the other runs</span>
          </Link>
        )}
        <details className="pop filter-more">
          <summary className="filter">More</summary>
          <div className="menu">
            {MORE_FILTERS.map((status) => (
              <Link key={status} href={to(status)} aria-current={status === filter.status ? "page" : undefined}>
                {words(status)} <Count n={summary && countOf(summary, status)} />
              </Link>
            ))}
            <Link href={filteredPath({ ...filter, archived: !filter.archived })} className="menu-apart">
              {filter.archived ? "Runs that are not archived" : "Archived runs"}
            </Link>
          </div>
        </details>
      </nav>
      <div className="filter-end">
        <select
          className="select"
          aria-label="Provider"
          value={filter.provider ?? ""}
          onChange={(event) => {
            const provider = PROVIDER_NAMES.find((each) => each === event.target.value) ?? null;
            navigate(filteredPath({ ...filter, provider }), { keepScroll: true });
          }}
        >
          <option value="">All providers</option>
          {PROVIDER_NAMES.map((provider) => (
            <option key={provider}>{provider}</option>
          ))}
        </select>
        <Dates filter={filter} />
        <SortSelect view={view} />
        <Search filter={filter} box={search} />
      </div>
    </div>
  );
}

const LAST_DAYS = [1, 7, 30];

/** When the runs were submitted: the last days, or from one day to another. */
function Dates({ filter }: { filter: RunFilter }) {
  const { from, until } = filter;
  const show = (change: Partial<RunFilter>) => navigate(filteredPath({ ...filter, ...change }), { keepScroll: true });
  const days = /^(\d+)d$/.exec(from ?? "")?.[1];
  const words =
    days !== undefined
      ? `Last ${days === "1" ? "day" : `${days} days`}`
      : from !== null && until !== null
        ? `${from} to ${until}`
        : from !== null
          ? `Since ${from}`
          : until !== null
            ? `Until ${until}`
            : "Any time";
  const day = (name: "from" | "until", title: string) => (
    <label>
      <span className="quiet small-text">{title}</span>
      <input
        type="date"
        value={(days === undefined || name === "until" ? filter[name] : null) ?? ""}
        onChange={(event) => show({ [name]: event.target.value || null })}
      />
    </label>
  );
  return (
    <details className="pop filter-dates">
      <summary className="button small">{words}</summary>
      <div className="menu">
        <div className="filters" role="group" aria-label="Submitted in the">
          {LAST_DAYS.map((each) => (
            <button
              key={each}
              type="button"
              className="button small toggle"
              aria-pressed={from === `${each}d`}
              onClick={() => show({ from: `${each}d`, until: null })}
            >
              {each === 1 ? "Last day" : `${each} days`}
            </button>
          ))}
          <button
            type="button"
            className="button small toggle"
            aria-pressed={from === null && until === null}
            onClick={() => show({ from: null, until: null })}
          >
            Any time
          </button>
        </div>
        {day("from", "From")}
        {day("until", "Until")}
      </div>
    </details>
  );
}

export function countOf({ runs, total }: Summary, status: Status): number {
  if (status === null) return total;
  const statuses: readonly JobStatus[] = status === "active" ? ACTIVE_STATUSES : [status];
  return statuses.reduce((sum, each) => sum + (runs[each] ?? 0), 0);
}

const Count = ({ n }: { n: number | null }) =>
  n === null || n === 0 ? null : <span className="count num">{n.toLocaleString("en-US")}</span>;

/** Typed text goes into the address after a short pause, without a history entry for each letter. */
function Search({ filter, box }: { filter: RunFilter; box: RefObject<HTMLInputElement | null> }) {
  const [text, setText] = useState(filter.text);
  const typed = useRef(filter.text);
  useEffect(() => {
    // The address changed by other means: a link, the back button.
    if (typed.current !== filter.text) setText((typed.current = filter.text));
  }, [filter.text]);
  useEffect(() => {
    if (text.trim() === filter.text) return;
    const timer = setTimeout(() => {
      typed.current = text.trim();
      navigate(filteredPath({ ...filter, text: text.trim() }), { replace: true, keepScroll: true });
    }, TYPED_MS);
    return () => clearTimeout(timer);
  }, [text, filter]);
  return (
    <input
      ref={box}
      type="search"
      className="search"
      placeholder="Search runs"
      aria-label="Search runs"
      aria-keyshortcuts="/"
      autoComplete="off"
      spellCheck={false}
      maxLength={200}
      value={text}
      onChange={(event) => setText(event.target.value)}
      onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
    />
  );
}
