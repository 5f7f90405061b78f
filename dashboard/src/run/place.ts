// The state of a view is in its address, so that it can be copied, kept and reached with the back button.

import { navigate } from "../router.tsx";

/** Changes some of the address's parameters; null removes one. A view's default is not written. */
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
