// Notices of the browser itself, for those who have allowed them on this browser: a run has ended, or something needs a person.

import type { Notice } from "../../../src/schemas/notify.ts";
import { levelOf } from "../../../src/schemas/notify-names.ts";
import { navigate, runPath } from "../router.tsx";
import { remember, remembered } from "../run/place.ts";

const CHOICE = "browser-notices";
const BODY_MAX = 300;

/** `absent`: the browser has none, or not at this address. `denied`: the user has refused them in the browser. */
export type BrowserNotices = "absent" | "denied" | "off" | "on";

export function browserNotices(): BrowserNotices {
  if (!("Notification" in globalThis) || !isSecureContext) return "absent";
  if (Notification.permission === "denied") return "denied";
  return remembered(CHOICE) && Notification.permission === "granted" ? "on" : "off";
}

/** Asks the browser for permission if that is needed. Call it after a click. */
export async function allowBrowserNotices(on: boolean): Promise<BrowserNotices> {
  if (on && Notification.permission === "default") await Notification.requestPermission();
  remember(CHOICE, on && Notification.permission === "granted");
  return browserNotices();
}

const isShown = ({ kind }: Notice): boolean => kind === "finished" || levelOf(kind) !== "info";

/** Shows news unless this page has the focus. Several tabs show one notice together, because it has the same tag. */
export function announce(notices: readonly Notice[]): void {
  if (browserNotices() !== "on" || document.hasFocus()) return;
  for (const notice of notices.filter(isShown)) {
    const { id, title, text, job_id } = notice;
    const shown = new Notification(title, {
      tag: `svc-notice-${id}`,
      body: (text ?? "").slice(0, BODY_MAX),
      icon: "/favicon.svg",
    });
    shown.onclick = () => {
      window.focus();
      navigate(job_id === null ? "/notifications" : runPath(job_id));
      shown.close();
    };
  }
}
