// API calls about notifications.

import type {
  Deliveries,
  Notices,
  Notifications,
  NotifyTargetBody,
  ShownTarget,
  Tested,
} from "../../../src/schemas/notify.ts";
import { call, get, query, sendJson } from "../api.ts";

const target = (name: string): string => `/v1/notifications/targets/${encodeURIComponent(name)}`;

export const notifyApi = {
  overview: () => get<Notifications>("/v1/notifications"),
  notices: (limit: number) => get<Notices>(`/v1/notices${query({ limit })}`),
  markRead: (upTo: number) => sendJson<{ unread: number }>("POST", "/v1/notices/read", { up_to: upTo }),
  deliveries: (limit: number) => get<Deliveries>(`/v1/notifications/deliveries${query({ limit })}`),
  /** The control plane checks the body. */
  save: (name: string, body: Omit<NotifyTargetBody, "target"> & { target: Record<string, unknown> }) =>
    sendJson<ShownTarget>("PUT", target(name), body),
  remove: async (name: string) => void (await call(target(name), { method: "DELETE" })),
  test: (name: string) => sendJson<Tested>("POST", `${target(name)}/test`, {}),
  setRules: (rules: readonly string[]) => sendJson<{ rules: string[] }>("PUT", "/v1/notifications/rules", { rules }),
};
