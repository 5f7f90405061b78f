// The menu that adds metrics and parameters of the runs as columns of their list.

import { useState } from "react";
import { navigate } from "../router.tsx";
import {
  columnKey,
  COLUMN_KINDS,
  COLUMNS_MAX,
  columnTitle,
  isMetric,
  withView,
  type Column,
  type ColumnKind,
  type View,
} from "./columns.ts";

const OFFERED_MAX = 60;
const KIND_TITLES: Readonly<Record<ColumnKind, string>> = { last: "last", min: "lowest", max: "highest", arg: "" };

const show = (view: View) =>
  navigate(withView(new URLSearchParams(location.search), view), { replace: true, keepScroll: true });

export function ColumnMenu(props: {
  view: View;
  metrics: readonly string[];
  params: readonly string[];
  onOpen: (open: boolean) => void;
}) {
  const { view, metrics, params, onOpen } = props;
  const [find, setFind] = useState("");
  const { columns } = view;
  const isFull = columns.length >= COLUMNS_MAX;
  const text = find.trim().toLowerCase();
  const fits = (name: string) => name.toLowerCase().includes(text);
  const change = (next: readonly Column[]) => show({ ...view, columns: next });
  const add = (column: Column) => {
    if (!isFull && !columns.some((each) => columnKey(each) === columnKey(column))) change([...columns, column]);
  };
  const offered: [string, Column[]][] = [
    ["Parameters", params.filter(fits).map((name) => ({ kind: "arg", name }))],
    ["Metrics", metrics.filter(fits).map((name) => ({ kind: "last", name }))],
  ];
  return (
    <details className="pop column-menu" onToggle={(event) => onOpen(event.currentTarget.open)}>
      <summary className="button small">
        Columns{columns.length > 0 && <span className="count num">{columns.length}</span>}
      </summary>
      <div className="menu">
        {columns.length > 0 && (
          <ul className="plain column-chosen" aria-label="Chosen columns">
            {columns.map((column, i) => (
              <li key={columnKey(column)}>
                <bdi className="column-name">{column.name}</bdi>
                {isMetric(column) && (
                  <select
                    aria-label={`Value of ${column.name}`}
                    value={column.kind}
                    onChange={(event) => {
                      const kind = COLUMN_KINDS.find((each) => each === event.target.value) ?? "last";
                      change(columns.with(i, { ...column, kind }));
                    }}
                  >
                    {COLUMN_KINDS.filter((kind) => kind !== "arg").map((kind) => (
                      <option key={kind} value={kind}>
                        {KIND_TITLES[kind]}
                      </option>
                    ))}
                  </select>
                )}
                <button
                  type="button"
                  className="compared-out"
                  aria-label={`Remove the column ${columnTitle(column)}`}
                  onClick={() => change(columns.toSpliced(i, 1))}
                >
                  ×
                </button>
              </li>
            ))}
          </ul>
        )}
        <input
          type="search"
          className="search"
          placeholder="Find a metric or parameter"
          aria-label="Find a metric or parameter"
          value={find}
          onChange={(event) => setFind(event.target.value)}
        />
        {isFull && <p className="quiet small-text">At most {COLUMNS_MAX} columns fit.</p>}
        {offered.map(([title, found]) => (
          <div key={title} role="group" aria-label={title}>
            <p className="quiet small-text">{title}</p>
            {found.slice(0, OFFERED_MAX).map((column) => (
              <button
                key={columnKey(column)}
                type="button"
                className="column-offer"
                disabled={isFull}
                onClick={() => add(column)}
              >
                <bdi>{column.name}</bdi>
              </button>
            ))}
            {found.length === 0 && <p className="small-text">None in the listed runs.</p>}
            {found.length > OFFERED_MAX && (
              <p className="quiet small-text">{found.length - OFFERED_MAX} more: type a part of the name.</p>
            )}
          </div>
        ))}
      </div>
    </details>
  );
}

const ORDER_WORDS: Readonly<Record<string, readonly [name: string, down: string, up: string]>> = {
  cost: ["Cost", "highest", "lowest"],
  duration: ["Duration", "longest", "shortest"],
  disk: ["Disk", "largest", "smallest"],
};

/** The order of the list where its columns have no heads, as on a phone. */
export function SortSelect({ view }: { view: View }) {
  const { columns, sort } = view;
  const chosen = columns.map((column) => [columnKey(column), [columnTitle(column), "highest", "lowest"]] as const);
  const orders = [...Object.entries(ORDER_WORDS), ...chosen];
  return (
    <select
      className="select sort-select"
      aria-label="Sort by"
      value={sort === null ? "" : `${sort.down ? "-" : ""}${sort.key}`}
      onChange={({ target: { value } }) =>
        show({ ...view, sort: value === "" ? null : { key: value.replace(/^-/, ""), down: value.startsWith("-") } })
      }
    >
      <option value="">Newest first</option>
      {orders.flatMap(([key, [name, down, up]]) => [
        <option key={`-${key}`} value={`-${key}`}>
          {name}, {down} first
        </option>,
        <option key={key} value={key}>
          {name}, {up} first
        </option>,
      ])}
    </select>
  );
}

/** A column head that sorts the list: first the highest value on top, then the lowest, then newest first again. */
export function SortHead({
  view,
  sortKey,
  title,
  className,
}: {
  view: View;
  sortKey: string;
  title: string;
  className: string;
}) {
  const { sort } = view;
  const down = sort?.key === sortKey ? sort.down : null;
  const next = down === null ? { key: sortKey, down: true } : down ? { key: sortKey, down: false } : null;
  return (
    <th
      scope="col"
      className={className}
      aria-sort={down === null ? undefined : down ? "descending" : "ascending"}
      title={title}
    >
      <button type="button" className="sort-head" onClick={() => show({ ...view, sort: next })}>
        <bdi>{title}</bdi>
        {down !== null && <span aria-hidden="true">{down ? " ↓" : " ↑"}</span>}
      </button>
    </th>
  );
}
