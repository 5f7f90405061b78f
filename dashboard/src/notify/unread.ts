// How many notices are unread. Events of the feed that may be notices, reconnections and a timer make it ask again.

import { createStore } from "@xstate/store";
import { useSelector } from "@xstate/store-react";
import type { Notice } from "../../../src/schemas/notify.ts";
import { coalesced, onHint } from "../sync.ts";
import { announce } from "./browser-notice.ts";
import { notifyApi } from "./notify-api.ts";

/** Rules about metrics and times write notices without an event. */
const LOOK_EVERY_MS = 30_000;
/** Notices between two requests; more are shown on the page of notifications. */
const NEWS_MAX = 20;

interface Unread {
  unread: number;
  /** Notices that were unread when the page of notifications showed them, until it is left. */
  fresh: ReadonlySet<number>;
}

const initial: Unread = { unread: 0, fresh: new Set() };
const unread = createStore({
  context: initial,
  on: {
    counted: (context, { count }: { count: number }) => ({ ...context, unread: count }),
    shown: (context, { ids }: { ids: readonly number[] }) => ({
      ...context,
      fresh: new Set([...context.fresh, ...ids]),
    }),
    left: (context) => ({ ...context, fresh: initial.fresh }),
  },
});

/** The newest notice that was known at the last request; null before the first. */
let known: number | null = null;

const look = coalesced(1_000, async () => {
  const answer = await notifyApi.overview().catch(() => null);
  if (answer === null) return;
  unread.trigger.counted({ count: answer.unread });
  const before = known;
  known = answer.latest;
  if (before === null || answer.latest <= before) return;
  const { notices } = await notifyApi.notices(NEWS_MAX);
  announce(notices.filter(({ id, read }) => id > before && !read));
});

/** Call it once per page. */
export function watchNotices(): void {
  onHint((hint) => {
    if (hint.type === "opened" || hint.type === "notices.changed") look.mark();
  });
  setInterval(() => look.mark(), LOOK_EVERY_MS);
}

/** Marks notices as read, newest first, that are on screen now. Resolves to false if the control plane did not answer. */
export async function markRead(notices: readonly Notice[]): Promise<boolean> {
  const ids = notices.filter(({ read }) => !read).map(({ id }) => id);
  const [newest] = ids;
  if (newest === undefined) return true;
  unread.trigger.shown({ ids });
  try {
    const { unread: count } = await notifyApi.markRead(newest);
    unread.trigger.counted({ count });
    return true;
  } catch {
    return false;
  }
}

export const leaveNotices = (): void => unread.trigger.left();

export const useUnread = (): number => useSelector(unread, (snapshot) => snapshot.context.unread);
export const useFresh = (): ReadonlySet<number> => useSelector(unread, (snapshot) => snapshot.context.fresh);
