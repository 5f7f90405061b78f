// The tables of `svc timeline`: steps with their attempts, and copies in object stores.

import { longDuration } from "../../../domain/long-duration.ts";
import { OWNER_WORDS, type StartPart } from "../../../domain/start-times.ts";
import { dollars } from "../../../errors/dollars.ts";
import { bytes } from "../../../domain/bytes.ts";
import { gateWords } from "../../../domain/gate-words.ts";
import { isRepeated } from "../../../domain/placement-words.ts";
import type { TimelineStep } from "../../../schemas/job.ts";
import type { SinkStatus } from "../../../schemas/sink-status.ts";
import type { Io } from "../../io.ts";
import { duration, instant, statusPaint, table } from "../../text.ts";

export const stepTable = (io: Io, steps: readonly TimelineStep[]): string =>
  table(
    io,
    [
      { title: "STEP" },
      { title: "NODE", right: true },
      { title: "TRY", right: true },
      { title: "STATUS", paint: statusPaint },
      { title: "STARTED", leaves: 1 },
      { title: "TOOK", right: true },
      { title: "WHAT", shrinks: true },
    ],
    steps.map((s) => [
      s.step,
      String(s.node),
      String(s.attempt),
      s.status,
      instant(io, s.started_at),
      took(s, io.tty),
      isRepeated(s, steps) ? "not possible any more, for the reason above" : what(s),
    ]),
  );

/** One line: the parts of the time until the script began, and who took each. */
export function startWords(parts: readonly StartPart[]): string {
  const told = parts.map(({ owner, ms, usd }) => {
    const price = usd === null ? ", cost unknown" : usd > 0 ? `, ${dollars(usd)}` : "";
    return `${OWNER_WORDS[owner]} ${longDuration(Math.round(ms / 1_000))}${price}`;
  });
  return `Time until the script began: ${told.join("; ")}.`;
}

export function sinkTable(io: Io, sinks: readonly SinkStatus[]): string {
  const rows = sinks.map((s) => [
    "sink",
    s.url,
    s.state,
    amount(io, s.sent),
    amount(io, s.waiting),
    instant(io, s.last_copied_at),
    s.error ? `${s.error.message}${s.next_attempt_at ? ` Again at ${s.next_attempt_at}.` : ""}` : leftOut(s),
  ]);
  return `${io.tty ? "\n" : ""}${table(
    io,
    [
      { title: "" },
      { title: "URL", shrinks: true },
      { title: "STATUS", paint: statusPaint },
      { title: "COPIED", right: true },
      { title: "TO GO", right: true },
      { title: "LAST" },
      { title: "WHAT", shrinks: true },
    ],
    rows,
  )}`;
}

const amount = (io: Io, { files, bytes: size }: SinkStatus["sent"]): string =>
  io.tty ? `${files} (${bytes(size)})` : `${files} ${size}`;

const leftOut = ({ left_out }: SinkStatus): string =>
  left_out.map(({ path, why }) => `left out ${path}: ${why}`).join("; ");

function took(s: TimelineStep, tty: boolean): string {
  if (s.started_at === null) return tty ? "-" : "";
  const ms = (s.ended_at ? Date.parse(s.ended_at) : Date.now()) - Date.parse(s.started_at);
  return tty ? duration(ms) : (Math.max(0, ms) / 1000).toFixed(3);
}

function what(s: TimelineStep): string {
  if (s.error) return `${s.error.message}${s.next_attempt_at ? ` Again at ${s.next_attempt_at}.` : ""}`;
  if (!s.detail) return "";
  // The reasons of a search are in `waiting_for`, in words.
  const { waiting_for: waiting } = s.detail;
  if (s.step === "place" && typeof waiting === "string") return waiting;
  return Object.entries(s.detail)
    .map(([k, v]) => `${k}=${typeof v === "string" ? v : ((k === "gate" ? gateWords(v) : null) ?? JSON.stringify(v))}`)
    .join(" ");
}
