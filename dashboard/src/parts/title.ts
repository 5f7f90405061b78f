import { useEffect } from "react";

/** Sets the title of the page for the tab and the history. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · svc`;
  }, [title]);
}
