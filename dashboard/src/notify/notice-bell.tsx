// The bell of the bar: leads to the notifications, and counts what is unread.

import { Link, usePlace } from "../router.tsx";
import { useUnread } from "./unread.ts";

const SHOWN_MAX = 99;

export function NoticeBell() {
  const unread = useUnread();
  const { path } = usePlace();
  const words = unread > 0 ? `Notifications, ${unread} unread` : "Notifications";
  return (
    <Link
      href="/notifications"
      className="icon-button bell"
      title={words}
      aria-current={path === "/notifications" ? "page" : undefined}
    >
      <svg viewBox="0 0 20 20" aria-hidden="true">
        <path d="M5 14V9a5 5 0 0 1 10 0v5l1 1H4zM8.5 17.5h3" />
      </svg>
      {unread > 0 && (
        <span className="bell-count num" aria-hidden="true">
          {unread > SHOWN_MAX ? `${SHOWN_MAX}+` : unread}
        </span>
      )}
      <span className="hidden">{words}</span>
    </Link>
  );
}
