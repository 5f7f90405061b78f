// The files of a snapshot on the Code tab, as folders that open and close by a click or by keys. Draws only the rows in
// view, so that a run with thousands of files opens as fast as one with ten.

import { useEffect, useId, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import type { CodeSnapshot } from "../../../src/schemas/job.ts";
import { useNarrow } from "../parts/window-rows.ts";
import { allFolders, foldersTo, rowsOf, treeOf, type TreeRow } from "./code-tree.ts";

/** Heights of a row, by `code.css`. */
const ROW_WIDE = 28;
const ROW_NARROW = 44;
const SPARE_ROWS = 10;
/** A list that is shorter than this is shown with all folders open. */
const SHORT = 40;

/** @param open the file that is shown */
export function FileTree(props: { code: CodeSnapshot; open: string | null; onOpen: (path: string) => void }) {
  const { code, open, onOpen } = props;
  const tree = useMemo(() => treeOf(code.files), [code]);
  const [folders, setFolders] = useState<ReadonlySet<string>>(
    () => new Set([...(code.files.length <= SHORT ? allFolders(tree) : []), ...foldersTo(open ?? "")]),
  );
  const [shownFor, setShownFor] = useState(open);
  if (shownFor !== open) {
    // Another file may be opened by the address: its folders open with it.
    setShownFor(open);
    setFolders(new Set([...folders, ...foldersTo(open ?? "")]));
  }
  const rows = useMemo(() => rowsOf(tree, folders), [tree, folders]);
  const [current, setCurrent] = useState(open);
  const at = Math.max(
    0,
    rows.findIndex(({ path }) => path === current),
  );
  const height = useNarrow() ? ROW_NARROW : ROW_WIDE;
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box, height);
  const first = Math.max(0, view.first - SPARE_ROWS);
  const shown = rows.slice(first, view.end + SPARE_ROWS);
  const name = useId();

  // The file that the page opens with is in view.
  const begin = useRef(at);
  useEffect(() => reveal(box.current, begin.current, height), [height]);

  const go = (index: number) => {
    const row = rows[Math.min(rows.length - 1, Math.max(0, index))];
    if (!row) return;
    setCurrent(row.path);
    reveal(box.current, rows.indexOf(row), height);
  };
  const toggle = (path: string) => {
    const next = new Set(folders);
    if (!next.delete(path)) next.add(path);
    setFolders(next);
  };
  const act = (row: TreeRow) => {
    setCurrent(row.path);
    if (row.isOpen === null) onOpen(row.path);
    else toggle(row.path);
  };
  const pressed = (event: KeyboardEvent) => {
    const row = rows[at];
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / height) - 1);
    const keys: Record<string, () => void> = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      PageDown: () => go(at + page),
      PageUp: () => go(at - page),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => (row.isOpen === false ? toggle(row.path) : row.isOpen && go(at + 1)),
      ArrowLeft: () => {
        if (row.isOpen) return toggle(row.path);
        const parent = rows.findLastIndex((each, i) => i < at && each.level < row.level);
        if (parent >= 0) go(parent);
      },
      Enter: () => act(row),
      " ": () => act(row),
    };
    const does = Object.hasOwn(keys, event.key) ? keys[event.key] : undefined;
    if (!does) return;
    event.preventDefault();
    does();
  };

  const isDrawn = at >= first && at < first + shown.length;
  return (
    <div
      ref={box}
      className="file-tree"
      role="tree"
      tabIndex={0}
      aria-label="Files of the snapshot"
      aria-activedescendant={isDrawn ? `${name}-${at}` : undefined}
      onKeyDown={pressed}
    >
      <div role="presentation" style={{ height: rows.length * height, paddingTop: first * height }}>
        {shown.map((row, i) => (
          <div
            key={row.path}
            id={`${name}-${first + i}`}
            role="treeitem"
            aria-level={row.level}
            aria-posinset={row.place}
            aria-setsize={row.siblings}
            aria-expanded={row.isOpen ?? undefined}
            aria-selected={row.isOpen === null ? row.path === open : undefined}
            className={first + i === at ? "tree-row tree-current" : "tree-row"}
            style={{ paddingLeft: 8 + 14 * Math.min(row.level - 1, 8) }}
            title={inOrder(row.path)}
            onClick={() => act(row)}
          >
            {tree.folders.length > 0 && (
              <span className="tree-mark" aria-hidden="true">
                {row.isOpen === null ? "" : row.isOpen ? "▾" : "▸"}
              </span>
            )}
            <span className="tree-name">
              <bdi>{inOrder(row.name)}</bdi>
              {row.isOpen !== null && "/"}
              {row.isExecutable && <span className="quiet"> executable</span>}
            </span>
            <span className="quiet num">{bytes(row.bytes)}</span>
          </div>
        ))}
      </div>
    </div>
  );
}

/** Scrolls no further than it must. */
function reveal(box: HTMLElement | null, index: number, height: number): void {
  if (!box) return;
  const top = index * height;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
}

/** The rows that the box shows. */
function useView(box: { current: HTMLDivElement | null }, height: number): { first: number; end: number } {
  const [view, setView] = useState({ first: 0, end: 40 });
  useEffect(() => {
    const { current: element } = box;
    if (!element) return;
    const look = () => {
      const first = Math.floor(element.scrollTop / height);
      const end = Math.ceil((element.scrollTop + element.clientHeight) / height);
      setView((before) => (before.first === first && before.end === end ? before : { first, end }));
    };
    look();
    const sizes = new ResizeObserver(look);
    sizes.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [box, height]);
  return view;
}
