// Reads notices and deliveries for the API and the command line, with or without a running control plane.

import type { Delivery, Notice } from "../schemas/notify.ts";
import { iso, isoOrNull } from "./records.ts";
import type { All, MessageRow, NoticeRow } from "./tables.ts";

/** False in a home from an older program. */
const haveNotices = (all: All): boolean => all("SELECT 1 FROM sqlite_schema WHERE name = 'notice'").length > 0;

const readUpTo = (all: All): number => all<{ n: number }>("SELECT read_up_to AS n FROM notify_setting")[0]?.n ?? 0;

/** The rules of the home, one a line. */
export function readNotifyRules(all: All): string[] {
  if (!haveNotices(all)) return [];
  const [row] = all<{ rules: string }>("SELECT rules FROM notify_setting");
  const rules: unknown = JSON.parse(row?.rules ?? "[]");
  return Array.isArray(rules) ? rules.map(String) : [];
}

/** The stored settings of each target. */
export const readTargetSettings = (all: All): string[] =>
  haveNotices(all)
    ? all<{ settings: string }>("SELECT settings FROM notify_target").map(({ settings }) => settings)
    : [];

export function countUnread(all: All): { unread: number; latest: number } {
  if (!haveNotices(all)) return { unread: 0, latest: 0 };
  const [row] = all<{ unread: number; latest: number }>(
    "SELECT (SELECT count(*) FROM notice WHERE id > (SELECT read_up_to FROM notify_setting)) AS unread, (SELECT coalesce(max(id), 0) FROM notice) AS latest",
  );
  return row ?? { unread: 0, latest: 0 };
}

export interface NotifyPage {
  limit: number;
  cursor?: string | undefined;
}

/** Newest first. */
export function readNotices(
  all: All,
  { limit, cursor }: NotifyPage,
): { notices: Notice[]; next_cursor: string | null } {
  if (!haveNotices(all)) return { notices: [], next_cursor: null };
  const rows = all<NoticeRow>(
    "SELECT * FROM notice WHERE id < ? ORDER BY id DESC LIMIT ?",
    Number(cursor ?? Number.MAX_SAFE_INTEGER),
    limit + 1,
  );
  const upTo = readUpTo(all);
  const notices = rows.slice(0, limit).map((row) => ({
    id: row.id,
    job_id: row.job_id,
    kind: row.kind as Notice["kind"],
    at: iso(row.at),
    title: row.title,
    text: textOf(row.data),
    read: row.id <= upTo,
  }));
  return { notices, next_cursor: rows.length > limit ? String(notices.at(-1)?.id ?? "") : null };
}

/** The cause, as the notice's writer recorded it. */
function textOf(data: string): string | null {
  const { cause }: { cause?: unknown } = JSON.parse(data);
  return typeof cause === "string" ? cause : null;
}

/** Newest first. The cursor is the instant and the id of the last one. */
export function readDeliveries(
  all: All,
  { limit, cursor }: NotifyPage,
): { deliveries: Delivery[]; next_cursor: string | null } {
  if (!haveNotices(all)) return { deliveries: [], next_cursor: null };
  const [at, id] = (cursor ?? `${Number.MAX_SAFE_INTEGER}.`).split(".", 2);
  const rows = all<MessageRow>(
    "SELECT * FROM notify_message WHERE (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?",
    Number(at),
    id ?? "",
    limit + 1,
  );
  const last = rows[limit - 1];
  return {
    deliveries: rows.slice(0, limit).map((row) => ({
      id: row.id,
      target: row.target,
      job_id: row.job_id,
      kind: row.kind,
      title: row.title,
      state: row.state,
      attempts: row.attempts,
      error: row.error,
      created_at: iso(row.created_at),
      next_attempt_at: row.state === "waiting" ? isoOrNull(row.next_at) : null,
      ended_at: isoOrNull(row.ended_at),
    })),
    next_cursor: rows.length > limit && last ? `${last.created_at}.${last.id}` : null,
  };
}

/** How far the messages of each target got. */
export function readTargetStates(
  all: All,
): Map<string, { waiting: number; last_sent_at: string | null; error: string | null; next_attempt_at: string | null }> {
  const rows = all<{
    target: string;
    waiting: number;
    sent: number | null;
    error: string | null;
    next_at: number | null;
  }>(
    `SELECT m.target, sum(m.state = 'waiting') AS waiting, max(CASE m.state WHEN 'sent' THEN m.ended_at END) AS sent,
       (SELECT e.error FROM notify_message e WHERE e.target = m.target AND e.attempts > 0 ORDER BY coalesce(e.ended_at, 9e15) DESC, e.created_at DESC LIMIT 1) AS error,
       min(CASE m.state WHEN 'waiting' THEN m.next_at END) AS next_at
     FROM notify_message m GROUP BY m.target`,
  );
  return new Map(
    rows.map((row) => [
      row.target,
      {
        waiting: row.waiting,
        last_sent_at: isoOrNull(row.sent),
        error: row.error,
        next_attempt_at: isoOrNull(row.next_at),
      },
    ]),
  );
}
