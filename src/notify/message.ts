// Writes a message: whole in itself, because its reader may have only a phone while the laptop with svc sleeps.
//
// W1. A message states the present: status, cause, cost, last metrics, last lines of the log, and the next command.
// W2. Every text in it is redacted, whatever it was made from, and before it is cut: no redactor finds half a secret.
// W3. Its size has a bound before any receiver's own limit is applied.
// W4. No text of a run looks like a line of svc, and no terminal obeys it: further lines of a text are indented.

import type { Redactor } from "../domain/redaction.ts";
import { longDuration, shortDuration } from "../domain/long-duration.ts";
import { runWarnings } from "../domain/run-warnings.ts";
import { oneLine, safeField, safeText } from "../domain/terminal-text.ts";
import { dollars } from "../errors/dollars.ts";
import type { JobRecord, LedgerMachine } from "../schemas/job.ts";
import { levelOf, type NoticeKind, type NoticeLevel } from "../schemas/notify-names.ts";
import { hasEnded } from "../schemas/names.ts";
import type { Reads } from "../store/reads.ts";
import type { NotifyStore } from "../store/notify-store.ts";
import type { NoticeRow } from "../store/tables.ts";

const LOG_LINES = 5;
const LOG_LINE_MAX = 300;
const METRICS_MAX = 4;
const WARNINGS_MAX = 3;
const TITLE_MAX = 200;
const CAUSE_MAX = 1_000;
/** Titles that a digest lists; the others are counted. */
const LISTED_MAX = 20;
const RUNS_MAX = 10;
/** An older notice is marked as late. */
const LATE_MS = 15 * 60_000;

// eslint-disable-next-line no-control-regex -- the sequences that colour text begin with this character
const COLOURS = /\u001b\[[0-9;:]*[A-Za-z]/g;

export interface NotifyMessage {
  id: string;
  kind: NoticeKind | "digest" | "test";
  level: NoticeLevel;
  title: string;
  /** When it happened. */
  at: string;
  /** Status, cause, cost, metrics: one fact a line. */
  facts: { name: string; value: string }[];
  /** The last lines of the run's log. */
  log: string[];
  /** The titles of a digest. */
  events: string[];
  /** Commands that come next. */
  next: string[];
  run: { id: string; label: string | null; status: string; cost_usd: number | null; exit_code: number | null } | null;
}

export interface MessageParts {
  reads: Pick<Reads, "job" | "timeline" | "jobs" | "machines" | "logBytes" | "logTailOffset" | "readLog">;
  rows: NotifyStore;
  redactor: () => Redactor;
  now: () => number;
}

/** W2. */
type Cut = (text: string, max: number) => string;
const cutter = ({ redactor }: MessageParts): Cut => {
  const secrets = redactor();
  return (text, max) => {
    const shown = secrets.redactText(text);
    return shown.length > max ? `${shown.slice(0, max - 1)}…` : shown;
  };
};

/** The message about one notice. */
export function noticeMessage(id: string, notice: NoticeRow, parts: MessageParts): NotifyMessage {
  const { cause }: { cause?: string | null } = JSON.parse(notice.data);
  const cut = cutter(parts);
  const record = notice.job_id === null ? null : parts.reads.job(notice.job_id);
  // The store writes only names of the list.
  const kind = notice.kind as NoticeKind;
  const facts: NotifyMessage["facts"] = [];
  const late = parts.now() - notice.at > LATE_MS;
  if (late) facts.push({ name: "Happened at", value: new Date(notice.at).toISOString() });
  if (cause) facts.push({ name: "Cause", value: cut(cause, CAUSE_MAX) });
  if (record) facts.push(...factsOf(record, parts, cut));
  if (record && hasEnded(record.status)) facts.push(...warningFacts(record.id, parts.reads, cut));
  if (kind === "machine_owed") facts.push(...machineFacts(parts.reads.machines(), cut));
  return redacted(
    {
      id,
      kind,
      level: levelOf(kind),
      title: cut(notice.title, TITLE_MAX),
      at: new Date(notice.at).toISOString(),
      facts,
      log: record ? lastLines(record.id, parts, cut) : [],
      events: [],
      next: nextOf(kind, record),
      run: record && runOf(record),
    },
    parts,
  );
}

/** One message in place of many: what happened, and what is true now. */
export function digestMessage(id: string, notices: readonly NoticeRow[], parts: MessageParts): NotifyMessage {
  const { reads } = parts;
  const cut = cutter(parts);
  const facts: NotifyMessage["facts"] = [];
  const running = reads.jobs({ status: ["running"], limit: RUNS_MAX + 1 }).jobs;
  if (running.length > 0) facts.push({ name: "Running now", value: named(running, cut) });
  facts.push(...machineFacts(reads.machines(), cut));
  const events = notices
    .slice(0, LISTED_MAX)
    .map((row) => `${new Date(row.at).toISOString().slice(0, 16)}Z ${cut(row.title, TITLE_MAX)}`);
  if (notices.length > LISTED_MAX) events.push(`and ${notices.length - LISTED_MAX} more`);
  const levels = notices.map((row) => levelOf(row.kind as NoticeKind));
  const level = levels.includes("urgent") ? "urgent" : levels.includes("warning") ? "warning" : "info";
  return redacted(
    {
      id,
      kind: "digest",
      level,
      title: digestTitle(notices.length),
      at: new Date(notices.at(-1)?.at ?? parts.now()).toISOString(),
      facts,
      log: [],
      events,
      next: ["svc jobs"],
      run: null,
    },
    parts,
  );
}

export const digestTitle = (count: number): string => `svc: ${count} notifications in one message`;

export function testMessage(id: string, name: string, now: number): NotifyMessage {
  return {
    id,
    kind: "test",
    level: "info",
    title: "svc: a test message",
    at: new Date(now).toISOString(),
    facts: [{ name: "Target", value: name }],
    log: [],
    events: [],
    next: ["svc notify list"],
    run: null,
  };
}

/** The whole message as plain text, without its title. */
export function textOfMessage({ facts, log, events, next }: NotifyMessage): string {
  return [
    ...facts.map(factLine),
    ...(events.length > 0 ? ["", ...events] : []),
    ...(log.length > 0 ? ["", "Log:", ...log.map((line) => `  ${line}`)] : []),
    ...(next.length > 0 ? ["", ...next.map((command) => `$ ${command}`)] : []),
  ].join("\n");
}

/** W4. One fact as text. */
export const factLine = ({ name, value }: NotifyMessage["facts"][number]): string =>
  `${name}: ${value.replaceAll("\n", "\n  ")}`;

/** W2, W4. */
function redacted(message: NotifyMessage, { redactor }: MessageParts): NotifyMessage {
  const { title, facts, events, ...rest } = redactor().redactValue(message);
  return {
    ...rest,
    title: oneLine(title),
    facts: facts.map(({ name, value }) => ({ name: oneLine(name), value: shownText(value) })),
    events: events.map((event) => oneLine(event)),
  };
}

const shownText = (text: string): string => safeText(text.replaceAll(COLOURS, "").replaceAll(/\r\n?/g, "\n")).trim();

function runOf(record: JobRecord): NonNullable<NotifyMessage["run"]> {
  const { id, label, status, exit_code } = record;
  return { id, label, status, exit_code, cost_usd: costKnown(record) ? record.cost_usd : null };
}

/** False if a machine of the run has a price that no provider reported. */
const costKnown = ({ machines }: JobRecord): boolean =>
  machines.every((machine) => machine.price_per_hour_usd !== null);

function factsOf(record: JobRecord, parts: MessageParts, cut: Cut): NotifyMessage["facts"] {
  const facts: NotifyMessage["facts"] = [{ name: "Status", value: statusWords(record) }];
  const machine =
    record.gpus === ""
      ? record.provider
      : `${record.provider}, ${record.nodes > 1 ? `${record.nodes} × ` : ""}${record.gpus}`;
  facts.push({ name: "Machine", value: machine });
  const price = record.price_per_hour_usd;
  const cost = costKnown(record) ? dollars(record.cost_usd) : `unknown (at least ${dollars(record.cost_usd)})`;
  facts.push({
    name: "Cost",
    value: hasEnded(record.status) || price === null ? cost : `${cost} so far, ${dollars(price)} an hour`,
  });
  if (record.note) facts.push({ name: "Note", value: cut(record.note.message, CAUSE_MAX) });
  for (const { name, step, value } of parts.rows.lastValues(record.id, METRICS_MAX))
    facts.push({
      name: cut(name, 100),
      value: `${value === null ? "NaN" : Number(value.toPrecision(6))} at step ${step}`,
    });
  return facts;
}

/** The reader may have a copy elsewhere, or start the run again. */
function warningFacts(id: string, reads: MessageParts["reads"], cut: Cut): NotifyMessage["facts"] {
  const warnings = runWarnings(reads.timeline(id).steps);
  const shown = warnings.slice(0, WARNINGS_MAX).map((words) => ({ name: "Warning", value: cut(words, CAUSE_MAX) }));
  const more = warnings.length - shown.length;
  return more > 0 ? [...shown, { name: "Warning", value: `${more} more are on the page of the run.` }] : shown;
}

function statusWords({ status, exit_code, started_at, ended_at }: JobRecord): string {
  const code = exit_code === null ? "" : `, exit code ${exit_code}`;
  if (started_at === null || ended_at === null) return `${status}${code}`;
  return `${status}${code}, after ${shortDuration(Date.parse(ended_at) - Date.parse(started_at))}`;
}

/** The machines that may cost money although no run needs them. */
function machineFacts(machines: readonly LedgerMachine[], cut: Cut): NotifyMessage["facts"] {
  const doubtful = machines.filter(({ note, job_id }) => note !== null || job_id === null).slice(0, RUNS_MAX);
  return doubtful.map(({ name, provider, price_per_hour_usd, age_seconds, note }) => ({
    name: `Machine ${name}`,
    value: cut(
      `${provider}, ${price_per_hour_usd === null ? "unknown price" : `${dollars(price_per_hour_usd)} an hour`}, ordered ${longDuration(Math.round(age_seconds))} ago. ${note?.message ?? ""}`.trim(),
      CAUSE_MAX,
    ),
  }));
}

function lastLines(jobId: string, { reads }: MessageParts, cut: Cut): string[] {
  const from = reads.logTailOffset(jobId, LOG_LINES);
  const bytes = reads.logBytes(jobId) - from;
  // The end of a long last line; the redaction has been applied to the stored text.
  const text = reads.readLog(jobId, Math.max(from, from + bytes - 16_384), 16_384).toString("utf8");
  return text
    .split(/\r\n|\n|\r/)
    .map((line) => safeField(line.replaceAll(COLOURS, "")).trimEnd())
    .filter((line) => line !== "")
    .slice(-LOG_LINES)
    .map((line) => cut(line, LOG_LINE_MAX));
}

function nextOf(kind: NoticeKind, record: JobRecord | null): string[] {
  if (kind === "machine_owed")
    return ["svc reconcile", ...(record && !hasEnded(record.status) ? [`svc kill ${record.id}`] : [])];
  if (record === null) return ["svc jobs"];
  if (kind === "failed" || kind === "finished") return [`svc logs ${record.id}`];
  if (kind === "waiting_long") return [`svc timeline ${record.id}`, `svc kill ${record.id}`];
  return [`svc logs ${record.id} --follow`, `svc kill ${record.id}`];
}

function named(runs: readonly JobRecord[], cut: Cut): string {
  const shown = runs
    .slice(0, RUNS_MAX)
    .map(({ label, id }) => cut(label ?? id, 60))
    .join(", ");
  return runs.length > RUNS_MAX ? `${shown} and more` : shown;
}
