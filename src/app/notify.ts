// Wires notifications: the rows of the engine's transactions, the sender, the watches, and the answers of the API.

import type { Clock } from "../domain/clock.ts";
import type { Redactor } from "../domain/redaction.ts";
import type { Engine } from "../engine/engine.ts";
import { Notifier } from "../notify/notifier.ts";
import { Outbox } from "../notify/outbox.ts";
import { NotifyService } from "../notify/service.ts";
import { Targets } from "../notify/targets.ts";
import { exclusively } from "../store/file-lock.ts";
import type { EngineStore } from "../store/engine-store.ts";
import { NotifyStore } from "../store/notify-store.ts";
import type { Reads } from "../store/reads.ts";

export interface NotificationParts {
  home: string;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  store: EngineStore;
  engine: () => Engine;
  reads: Reads;
  redactor: () => Redactor;
  remember: (secrets: readonly string[]) => void;
  report: (line: string) => void;
}

export function notificationsOf(parts: NotificationParts) {
  const { clock, reads, redactor, env } = parts;
  const rows = new NotifyStore(parts.store.db);
  const targets = new Targets({ ...parts, rows, exclusively });
  const commit = <T>(fn: () => T): Promise<T> => parts.engine().commit(fn);
  const notifier = new Notifier({
    env,
    clock,
    rows,
    targets,
    commit,
    message: { reads, rows, redactor, now: clock.now },
    report: parts.report,
  });
  const outbox = new Outbox(rows, () => notifier.wake());
  const service = new NotifyService({ rows, targets, notifier, commit, now: clock.now, ruled: () => undefined });
  return { notifier, outbox, service };
}
