// The title of the page, for the tab and the history: what is shown, behind the number of unread notifications.

import { useEffect } from "react";

let shown = "";
let unread = 0;

const write = (): void => {
  document.title = `${unread > 0 ? `(${unread}) ` : ""}${shown === "" ? "svc" : `${shown} · svc`}`;
};

export function useTitle(title: string): void {
  useEffect(() => {
    shown = title;
    write();
  }, [title]);
}

export function useUnreadInTitle(count: number): void {
  useEffect(() => {
    unread = count;
    write();
  }, [count]);
}
