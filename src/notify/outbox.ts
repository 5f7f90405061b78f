// Decides which events are worth a notification, and records them in the transaction of the event. The engine calls
// `heard` for each event of the feed; watches call `add`.
//
// O1. A notice is a row of the transaction that makes its event durable: neither exists without the other.
// O2. Nothing here waits, sends or reads a file. A notice costs one insert.
// O3. A notice with a key is recorded once, however often it is found.

import { dollars, exactDollars } from "../errors/dollars.ts";
import type { NoticeKind } from "../schemas/notify-names.ts";
import type { NotifyStore } from "../store/notify-store.ts";
import { storedError } from "../store/stored-json.ts";
import type { JobRow } from "../store/tables.ts";

/** Longest cause that is kept, in characters. */
const CAUSE_MAX = 2_000;
const NAME_MAX = 120;

/** The part of a transaction that a notice needs. */
export interface NoticeTransaction {
  readonly at: number;
  /** Runs once the transaction is durable. */
  after(fn: () => void): void;
  readonly store: { job(id: string): JobRow | undefined };
}

export interface HeardEvent {
  job_id: string | null;
  type: string;
  data: Record<string, unknown>;
}

export interface FoundNotice {
  job_id: string | null;
  kind: NoticeKind;
  /** The event, for the title: "failed", "may still cost money". */
  words: string;
  /** The name of the subject, where it is not a run. */
  subject?: string;
  /** Why, in a sentence. */
  cause?: string | null;
  key?: string;
}

export class Outbox {
  readonly #rows: NotifyStore;
  readonly #wake: () => void;

  /** @param wake called when a notice has become durable. */
  constructor(rows: NotifyStore, wake: () => void) {
    this.#rows = rows;
    this.#wake = wake;
  }

  /** O1. */
  heard(tx: NoticeTransaction, event: HeardEvent): void {
    const found = foundIn(event, () => (event.job_id === null ? undefined : tx.store.job(event.job_id)));
    if (found !== null) this.add(tx, found);
  }

  /** False if a notice with this key exists. */
  add(tx: NoticeTransaction, { job_id, kind, words, subject, cause, key }: FoundNotice): boolean {
    const name = subject ?? runName(job_id === null ? undefined : tx.store.job(job_id), job_id);
    const added = this.#rows.insert({
      job_id,
      kind,
      at: tx.at,
      key: key ?? null,
      title: `${name} ${words}`.trim(),
      data: JSON.stringify({ cause: cause ? cause.slice(0, CAUSE_MAX) : null }),
    });
    if (added) tx.after(this.#wake);
    return added;
  }
}

/** A run as people call it. */
export const runName = (row: Pick<JobRow, "label"> | undefined, id: string | null): string =>
  (row?.label ?? id ?? "svc").slice(0, NAME_MAX);

const messageIn = (error: unknown): string | null =>
  typeof error === "object" && error !== null && "message" in error ? text(error.message) : null;
const text = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

function foundIn({ job_id, type, data }: HeardEvent, job: () => JobRow | undefined): FoundNotice | null {
  const about = (kind: NoticeKind, words: string, cause: string | null = null): FoundNotice => ({
    job_id,
    kind,
    words,
    cause,
  });
  switch (type) {
    case "job.transition":
      return data["to"] === "terminal" ? ended(about, String(data["status"]), job()) : null;
    case "placement.opened":
      return about(
        "placement_changed",
        "continues on another machine",
        `${String(data["provider"])}, ${String(data["gpus"])}.`,
      );
    case "notice":
      return data["about"] === "stuck" ? about("stuck", "may be stuck", text(data["message"])) : null;
    case "price.raised":
      return about("price_raised", "costs more than before", text(data["message"]));
    case "alert":
      return about("alert", `reports: ${firstLine(String(data["message"]))}`, text(data["message"]));
    case "budget.warned": {
      const kind = Number(data["percent"]) >= 90 ? "budget_90" : "budget_75";
      const budget = Number(data["budget_usd"]);
      const cause = `${dollars(Number(data["spent_usd"]), budget)} of ${exactDollars(budget)} are spent.`;
      return about(kind, `has used ${Number(data["percent"])} % of its budget`, cause);
    }
    case "budget.reached":
      // The run's end was reported when the script was asked to stop.
      if (data["ends"] === "downloads") return null;
      return about("budget_100", "has reached its budget and ends", messageIn(data["error"]));
    default:
      return null;
  }
}

const ENDED: Readonly<Record<string, string>> = {
  succeeded: "succeeded",
  cancelled: "was cancelled",
  failed: "failed",
  timed_out: "timed out",
  interrupted: "was interrupted",
};

function ended(
  about: (kind: NoticeKind, words: string, cause: string | null) => FoundNotice,
  status: string,
  row: JobRow | undefined,
): FoundNotice {
  const cause = row?.error ? storedError(row.id, row.error).message : null;
  const kind = status === "succeeded" || status === "cancelled" ? "finished" : "failed";
  return about(kind, ENDED[status] ?? `ended: ${status}`, cause);
}

const firstLine = (message: string): string => {
  const [first = ""] = message.trim().split("\n");
  return first.length > 80 ? `${first.slice(0, 79)}…` : first;
};
