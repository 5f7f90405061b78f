// `svc timeline`: the steps of a run with attempts and durations, its machines, and its copies in object stores.

import { bytes } from "../../domain/bytes.ts";
import { gateWords } from "../../domain/gate-words.ts";
import { isRepeated, lanesOf } from "../../domain/placement-words.ts";
import type { TimelineStep } from "../../schemas/job.ts";
import type { SinkStatus } from "../../schemas/sink-status.ts";
import type { Command } from "../command.ts";
import type { Io } from "../io.ts";
import { haveLanes, placementTable, waitingTable, waitingWords } from "../placement-lanes.ts";
import { withJob } from "../store.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { duration, hintFor, instant, printJson, statusPaint, table } from "../text.ts";

export const timeline: Command = {
  name: "timeline",
  args: "<job>",
  summary: "Show the machines and steps of a run, with attempts and durations",
  options: [],
  exits: [["3", "no such job"]],
  examples: ["svc timeline 4k2m", "svc timeline 4k2m --json"],
  run: (input, io) =>
    withJob(io, input.args[0] ?? "", async (reads, id) => {
      const told = reads.timeline(id);
      const job = reads.job(id);
      const sinks = reads.sinks(id);
      const placed = reads.placements(id);
      if (input.json) {
        await printJson(io, { job_id: id, status: job?.status ?? null, ...told, ...placed, sinks });
        return 0;
      }
      const lanes = haveLanes(placed);
      // A pipe gets the rows of steps first, as ever.
      if (lanes && io.tty) {
        await io.out(`${placementTable(io, placed.placements)}\n`);
        for (const lane of lanesOf(told.steps)) {
          const what = lane.placement === null ? "Search for a machine" : `Placement ${lane.placement}`;
          await io.out(`${what}\n${stepTable(io, lane.steps)}\n`);
        }
        if (placed.waiting !== null && placed.waiting.tried.length > 0) await io.out(waitingTable(io, placed.waiting));
      } else {
        await io.out(stepTable(io, told.steps));
        if (lanes) await io.out(placementTable(io, placed.placements));
        if (placed.waiting !== null) await io.out(waitingTable(io, placed.waiting));
      }
      if (sinks.length > 0) await io.out(sinkTable(io, sinks));
      if (io.tty && job) {
        io.err(
          `${id}: ${job.status}${job.exit_code === null ? "" : `, exit code ${job.exit_code}`}${job.note ? ` (${safeField(job.note.message)})` : ""}`,
        );
        if (placed.waiting !== null) io.err(waitingWords(io, placed.waiting));
        if (job.error) io.err(`${safeField(job.error.message)}\n${hintFor(id, job.error.hint)}`);
      }
      return 0;
    }),
};

const stepTable = (io: Io, steps: readonly TimelineStep[]): string =>
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

function sinkTable(io: Io, sinks: readonly SinkStatus[]): string {
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
