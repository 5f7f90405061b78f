// Links and addresses: every view has a URL. Links are real links: a modified click, copying and the back button work as elsewhere. The table
// of pages is `PAGES` in app.tsx.

import { useSyncExternalStore, type AnchorHTMLAttributes, type MouseEvent } from "react";

const listeners = new Set<() => void>();
const told = () => {
  for (const listener of listeners) listener();
};
addEventListener("popstate", told);

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

export interface Place {
  path: string;
  query: URLSearchParams;
}

/** The current place; the component is redrawn when it changes. */
export function usePlace(): Place {
  const href = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  const url = new URL(href, location.origin);
  return { path: url.pathname, query: url.searchParams };
}

/** Goes to a place of the dashboard without loading a page. */
export function navigate(to: string, options: { replace?: boolean; keepScroll?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  told();
  if (!options.keepScroll) scrollTo(0, 0);
}

interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  href: string;
  keepScroll?: boolean;
}

export function Link({ keepScroll, onClick, ...rest }: LinkProps) {
  const click = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    event.preventDefault();
    navigate(rest.href, { keepScroll: keepScroll ?? false });
  };
  return <a {...rest} onClick={click} />;
}

export const runPath = (id: string, tab?: string) =>
  `/runs/${encodeURIComponent(id)}${tab && tab !== "overview" ? `?tab=${tab}` : ""}`;
