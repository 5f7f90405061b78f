// Keyboard shortcuts that work everywhere on the page except in text fields. `?` lists every registered shortcut.

import { useEffect, useRef } from "react";

export interface Shortcut {
  /** One key, or a sequence of two: `j`, `/`, `g r`. */
  keys: string;
  does: string;
  /** Omitted if another part of the page handles the key: then it is only listed. */
  run?: () => void;
}

interface Registered {
  group: string;
  shortcuts: readonly Shortcut[];
}

const PREFIX_MS = 1_500;
const registered = new Set<{ current: Registered }>();
let prefix: { key: string; at: number } | null = null;

/** Shortcuts of every page; a page's own shortcuts take precedence. */
export const EVERYWHERE = "Everywhere";

/** The keys that work now, by group, newest page first. */
export const shortcutsNow = (): Registered[] =>
  [...registered]
    .map((each) => each.current)
    .toReversed()
    .sort((a, b) => Number(a.group === EVERYWHERE) - Number(b.group === EVERYWHERE));

/** Registers keys while the component is shown. */
export function useKeys(group: string, shortcuts: readonly Shortcut[]): void {
  const latest = useRef({ group, shortcuts });
  useEffect(() => void (latest.current = { group, shortcuts }));
  useEffect(() => {
    registered.add(latest);
    return () => void registered.delete(latest);
  }, []);
}

const writes = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    target.tagName === "TEXTAREA" ||
    target.tagName === "SELECT" ||
    (target instanceof HTMLInputElement && !["checkbox", "radio", "button", "range"].includes(target.type)));

function pressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.isComposing) return;
  if (writes(event.target) || document.querySelector("dialog[open]")) return;
  const before = prefix && event.timeStamp - prefix.at < PREFIX_MS ? prefix.key : null;
  prefix = null;
  const all = shortcutsNow().flatMap((each) => each.shortcuts.filter(({ run }) => run));
  const wanted = before === null ? event.key : `${before} ${event.key}`;
  const found = all.find((each) => each.keys === wanted) ?? all.find((each) => each.keys === event.key);
  if (found) {
    event.preventDefault();
    found.run?.();
  } else if (all.some((each) => each.keys.startsWith(`${event.key} `))) {
    prefix = { key: event.key, at: event.timeStamp };
  }
}

/** Starts to listen; called once per page. */
export function listenForKeys(): void {
  document.addEventListener("keydown", pressed);
}
