// The icon of the browser's tab: what is true of the shown run, of unread notifications, and of machines that no run needs.

import { useEffect } from "react";
import { ownValue } from "../../../src/domain/own-value.ts";
import type { JobStatus } from "../../../src/schemas/job.ts";
import { useUnread } from "../notify/unread.ts";
import { useData } from "../store.ts";
import { isActive } from "../status.ts";
import { useUnneeded } from "./money-alarm.tsx";
import { useUnreadInTitle } from "./title.ts";

const BLUE = "#2f5fd0";
const RED = "#c3352e";
const GREEN = "#1d7a46";
const AMBER = "#e0a021";

const icon = (ground: string, dot: string | null): string => {
  const mark = dot === null ? "" : `<circle cx="24" cy="8" r="7.5" fill="${dot}" stroke="#fff" stroke-width="2"/>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="${ground}"/><path d="M7 22h4v-6H7zM14 22h4V10h-4zM21 22h4v-9h-4z" fill="#fff"/>${mark}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
};

const ENDED: Partial<Record<JobStatus, string>> = { succeeded: GREEN, failed: RED, timed_out: RED, interrupted: RED };

/** Red as a whole while a machine may cost money for nothing; else a dot for the shown run, or for what is unread. */
export function useTabIcon(path: string): void {
  const id = /^\/runs\/([^/]+)/.exec(path)?.[1] ?? "";
  const job = useData((data) => ownValue(data.jobs, id));
  const unread = useUnread();
  const isAlarming = useUnneeded().length > 0;
  const ofRun = job === undefined ? null : isActive(job) ? AMBER : (ENDED[job.status] ?? null);
  const href = icon(isAlarming ? RED : BLUE, ofRun ?? (unread > 0 ? AMBER : null));
  useUnreadInTitle(unread);
  useEffect(() => {
    document.querySelector<HTMLLinkElement>("link[rel=icon]")?.setAttribute("href", href);
  }, [href]);
}
