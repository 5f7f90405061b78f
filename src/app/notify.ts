// Wires notifications: the rows of the engine's transactions, the sender, the watches, and the answers of the API.

import type { Clock } from "../domain/clock.ts";
import type { Redactor } from "../domain/redaction.ts";
import type { Engine } from "../engine/engine.ts";
import type { Transaction } from "../engine/transaction.ts";
import { asSvcError, describeError } from "../errors/index.ts";
import { Notifier } from "../notify/notifier.ts";
import { Outbox } from "../notify/outbox.ts";
import { NotifyService } from "../notify/service.ts";
import { Targets } from "../notify/targets.ts";
import { Watch } from "../notify/watch.ts";
import { exclusively } from "../store/file-lock.ts";
import type { EngineStore } from "../store/engine-store.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { NotifyStore } from "../store/notify-store.ts";
import type { Reads } from "../store/reads.ts";

/** Interval between two polls for conditions that no event reports. */
const LOOK_EVERY_MS = 10_000;

export interface NotificationParts {
  home: string;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  store: EngineStore;
  engine: () => Engine;
  reads: Reads;
  redactor: () => Redactor;
  remember: (secrets: readonly string[]) => void;
  /** Calls it whenever a file changed from which it read a secret. */
  learnFrom: (learn: () => void) => void;
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
  const { store } = parts;
  const watch = new Watch<Transaction>({
    rows,
    outbox,
    now: clock.now,
    commit: (fn) => parts.engine().commit(fn),
    liveJobs: () => store.liveJobs(),
    closedAt: (jobId) => store.lastPlacement(jobId)?.closed_at ?? null,
    configured: () => targets.configuredRules(),
    ownOf: (jobId) => {
      const row = store.job(jobId);
      return row === undefined ? [] : (specOf(row).notify ?? []);
    },
    end: (tx, jobId, rule) => {
      const error = describeError("stopped_by_rule", { rule });
      parts.engine().apply(tx, jobId, { type: "job.kill", error });
    },
  });
  parts.learnFrom(() => targets.maskSecrets());
  const configured = (): void => {
    targets.maskSecrets();
    watch.ruled();
  };
  const service = new NotifyService({ rows, targets, notifier, commit, now: clock.now, ruled: () => watch.ruled() });
  return { notifier, outbox, service, watch, configured, ...looking(clock, { notifier, watch, report: parts.report }) };
}

/** Looks at machines and late runs every few seconds, until `stop`. */
function looking(
  clock: Clock,
  { notifier, watch, report }: { notifier: Notifier; watch: Watch<Transaction>; report: (line: string) => void },
) {
  let timer: { cancel(): void } | null = null;
  let isOver = false;
  let looked = Promise.resolve();
  const look = (): void => {
    const failed = (e: unknown): void => report(`Notifications: ${asSvcError(e).message}`);
    looked = watch
      .look()
      .catch(failed)
      .then(() => notifier.look())
      .catch(failed)
      .then(() => {
        if (!isOver) timer = clock.setTimer(LOOK_EVERY_MS, look);
      });
  };
  return {
    begin: (): void => {
      notifier.begin();
      look();
    },
    stop: async (): Promise<void> => {
      isOver = true;
      timer?.cancel();
      await looked;
      await notifier.stop();
    },
  };
}
