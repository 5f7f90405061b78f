// Shows progress on a terminal while a script waits for a run: a line for each status, the last one redrawn while it
// lasts. A pipe or a file gets nothing but warnings of what is lost; SVC_PROGRESS=0 gets nothing. Text from a machine loses its control characters: a log must
// not steer a terminal.

import { longDuration } from "../src/domain/long-duration.ts";
import { costText } from "../src/domain/money.ts";
import { hourly } from "../src/errors/dollars.ts";
import { runWarnings } from "../src/domain/run-warnings.ts";
import { oneLine } from "../src/domain/terminal-text.ts";
import type { JobRecord, Timeline } from "../src/schemas/job.ts";

const ASK_MS = 2_000;
const WARNING_MAX = 2_000;
const CLEAR = "\r\u001b[K";

export interface Progress {
  /** Called with each record that is read. */
  saw(record: JobRecord, ended: boolean): Promise<void>;
  /** Leaves the terminal in a clean state. */
  close(): void;
}

export function progressOf(timeline: (id: string) => Promise<Timeline>): Progress {
  const off = /^(0|off|no|false)$/i.test(process.env["SVC_PROGRESS"] ?? "");
  if (off) return { saw: () => Promise.resolve(), close: () => undefined };
  if (process.stderr.isTTY) return new Terminal(timeline);
  return { saw: ({ id }, ended) => (ended ? tellWarnings(id, timeline) : Promise.resolve()), close: () => undefined };
}

/** Prints the warnings about files that are lost with the machines of a run. */
async function tellWarnings(id: string, timeline: (id: string) => Promise<Timeline>): Promise<void> {
  const warnings = await timeline(id).then(
    ({ steps }) => runWarnings(steps),
    () => [],
  );
  for (const words of warnings) process.stderr.write(`svc: ${id}: ${oneLine(words).slice(0, WARNING_MAX)}\n`);
}

class Terminal implements Progress {
  readonly #timeline: (id: string) => Promise<Timeline>;
  readonly #moving = !["", "dumb"].includes(process.env["TERM"] ?? "");
  readonly #began = performance.now();
  #since = this.#began;
  #status = "";
  #words = "";
  #askAt = 0;
  #open = false;

  constructor(timeline: (id: string) => Promise<Timeline>) {
    this.#timeline = timeline;
  }

  async saw(record: JobRecord, ended: boolean): Promise<void> {
    const now = performance.now();
    if (record.status !== this.#status) {
      this.close();
      this.#status = record.status;
      this.#since = now;
      this.#askAt = 0;
      if (!ended && !this.#moving) process.stderr.write(`svc: ${record.id} ${record.status}\n`);
    }
    if (ended) {
      process.stderr.write(`${summary(record, now - this.#began)}\n`);
      return tellWarnings(record.id, this.#timeline);
    }
    if (!this.#moving) return;
    if (now >= this.#askAt) {
      this.#askAt = now + ASK_MS;
      this.#words = record.note?.message ?? (await this.#timeline(record.id).then(doing, () => ""));
    }
    const price = record.price_per_hour_usd ? hourly(record.price_per_hour_usd) : "";
    const head = `svc: ${record.id} ${record.status.padEnd(13)} ${span(now - this.#since).padStart(11)}`;
    const line = [head, price, plain(this.#words)].filter((part) => part !== "").join("  ");
    this.#open = true;
    process.stderr.write(CLEAR + line.slice(0, Math.max(20, (process.stderr.columns || 80) - 1)));
  }

  close(): void {
    if (this.#open) process.stderr.write("\n");
    this.#open = false;
  }
}

/** The activity of the newest attempt that has not ended, or why it is being retried. */
function doing({ steps }: Timeline): string {
  const step = steps.findLast((each) => each.status === "running" || each.status === "retrying");
  if (!step) return "";
  if (step.status === "retrying" && step.error) return `retrying: ${step.error.message}`;
  const { doing: words, files, files_total: total } = step.detail ?? {};
  if (typeof words !== "string") return "";
  return typeof total === "number" ? `${words}: ${Number(files)} of ${total} files` : words;
}

function summary(record: JobRecord, ms: number): string {
  const words = [`svc: ${record.id} ${record.status} after ${span(ms)}`];
  if (record.exit_code !== null) words.push(`exit code ${record.exit_code}`);
  const cost = costText(record);
  if (cost === "unknown") words.push("cost unknown");
  else if (record.cost_usd > 0) words.push(cost);
  return words.join(", ") + (record.error ? `: ${plain(record.error.message)}` : "");
}

const span = (ms: number): string => longDuration(Math.floor(ms / 1000));

/** Text for one line of a terminal. */
export const plain = (words: string): string => oneLine(words).slice(0, 500);
