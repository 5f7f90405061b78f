// What a view shows stands in its address: it can be copied, kept and gone back to.

import { navigate } from "../router.tsx";

/** Changes some of the address's parameters; null takes one out. The default of a view is not written. */
export function setParams(changes: Record<string, string | null>, options: { push?: boolean } = {}): void {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") params.delete(name);
    else params.set(name, value);
  }
  const text = params.toString();
  const to = location.pathname + (text ? `?${text}` : "");
  if (to !== location.pathname + location.search) navigate(to, { replace: !options.push, keepScroll: true });
}

/** A choice that this browser remembers. Without storage it lasts as long as the page. */
export function remembered(name: string): boolean {
  try {
    return localStorage.getItem(`svc.${name}`) === "1";
  } catch {
    return false;
  }
}
export function remember(name: string, on: boolean): void {
  try {
    localStorage.setItem(`svc.${name}`, on ? "1" : "0");
  } catch {
    // See above.
  }
}
