// Computes which rows of a long table are in view. At one page width all rows have one height, so no row needs to be
// measured.

import { useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";

const SPARE_ROWS = 8;

export interface WindowRows {
  first: number;
  /** The index after the last row. */
  end: number;
}

/** The rows near the window, redrawn while scrolling. `start` is where the first row begins. */
export function useWindowRows(start: RefObject<HTMLElement | null>, count: number, height: number): WindowRows {
  const [rows, setRows] = useState<WindowRows>({ first: 0, end: 40 });
  useEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      const top = start.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / height) - SPARE_ROWS);
      const end = Math.max(first, Math.ceil((innerHeight - top) / height) + SPARE_ROWS);
      setRows((before) => (before.first === first && before.end === end ? before : { first, end }));
    };
    const soon = () => {
      if (frame === 0) frame = requestAnimationFrame(look);
    };
    look();
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, [start, height]);
  return { first: Math.min(rows.first, count), end: Math.min(rows.end, count) };
}

/**
 * Keeps the view steady when rows are added above: the page is scrolled by the added height. Returns how many rows were
 * added since the user left the top.
 */
export function useSteady(start: RefObject<HTMLElement | null>, ids: readonly string[], height: number): number {
  const before = useRef<readonly string[]>(ids);
  const [above, setAbove] = useState(0);
  useLayoutEffect(() => {
    const old = before.current;
    before.current = ids;
    // At the top of the page the user waits for new rows.
    if (old === ids || scrollY < 1) return;
    const top = start.current?.getBoundingClientRect().top ?? 0;
    const places = new Map(ids.map((id, i) => [id, i]));
    // The uppermost visible row that still exists stays in place.
    const at = old.findIndex((id, i) => (i + 1) * height > -top && places.has(id));
    const moved = at < 0 ? 0 : (places.get(old[at] ?? "") ?? at) - at;
    if (moved === 0) return;
    scrollBy(0, moved * height);
    setAbove((n) => Math.max(0, n + moved));
  }, [start, ids, height]);
  useEffect(() => {
    const look = () => {
      if ((start.current?.getBoundingClientRect().top ?? 0) > 0) setAbove(0);
    };
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, [start]);
  return above;
}

/** Whether the page is as narrow as a phone, by the same number as the style sheets. */
export function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia("(max-width: 720px)").matches);
  useEffect(() => {
    const query = matchMedia("(max-width: 720px)");
    const look = () => setNarrow(query.matches);
    query.addEventListener("change", look);
    return () => query.removeEventListener("change", look);
  }, []);
  return narrow;
}
