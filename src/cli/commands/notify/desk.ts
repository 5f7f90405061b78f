// The operations of `svc notify`, over HTTP where a control plane runs, or in this process.

import type { Deliveries, Notifications, NotifyTargetBody, ShownTarget, Tested } from "../../../schemas/notify.ts";
import { runningClient, withOwnControlPlane } from "../../control-plane.ts";
import type { Io } from "../../io.ts";

export interface NotifyDesk {
  overview(): Notifications | Promise<Notifications>;
  save(name: string, body: NotifyTargetBody): Promise<ShownTarget>;
  remove(name: string): Promise<unknown>;
  test(name: string): Promise<Tested>;
  setRules(lines: readonly string[]): Promise<string[]>;
  deliveries(query: { limit: number }): Deliveries | Promise<Deliveries>;
}

export async function withNotifyDesk(
  io: Io,
  use: (desk: NotifyDesk) => Promise<number>,
  options: { onlyReads?: boolean } = {},
): Promise<number> {
  const client = await runningClient(io);
  if (!client) return withOwnControlPlane(io, "look", (cp) => use(cp.notifications), options);
  return use({
    overview: () => client.notifications(),
    save: (name, body) => client.saveNotifyTarget(name, body),
    remove: (name) => client.removeNotifyTarget(name),
    test: (name) => client.testNotifyTarget(name),
    setRules: (lines) => client.setNotifyRules(lines),
    deliveries: ({ limit }) => client.notifyDeliveries(limit),
  });
}
