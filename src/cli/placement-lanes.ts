// Prints the placements of a run for `svc timeline`: a lane for each, with its evidence, and what the run waits for now.

import { costText } from "../domain/money.ts";
import { accountWords, endWords, placeWords, rateWords, rentedNothing } from "../domain/placement-words.ts";
import type { Placement, Placements, Waiting } from "../schemas/placement.ts";
import type { Io } from "./io.ts";
import { duration, instant, statusPaint, table } from "./text.ts";

/** Whether there is more to tell than the steps do. */
export const haveLanes = ({ placements, waiting }: Placements): boolean => placements.length > 1 || waiting !== null;

/** A table on a terminal; piped, rows whose first field is `placement`. */
export function placementTable(io: Io, placements: readonly Placement[]): string {
  return table(
    io,
    [
      { title: io.tty ? "PLACEMENT" : "", right: io.tty },
      ...(io.tty ? [] : [{ title: "" }]),
      { title: "WHERE", shrinks: true },
      { title: "END", paint: (end: string) => (end === "running" ? "36" : statusPaint(end)) },
      { title: "OPENED", leaves: 1 },
      { title: "TOOK", right: true },
      { title: "$/H", right: true, leaves: 2 },
      { title: "COST", right: true },
    ],
    placements.map((placement) => [
      ...(io.tty ? [] : ["placement"]),
      String(placement.n),
      placeWords(placement),
      endWords(placement),
      instant(io, placement.opened_at),
      took(io, placement),
      io.tty ? (rateWords(placement) ?? "-") : String(placement.price_per_hour_usd ?? ""),
      io.tty ? cost(placement) : String(placement.cost_usd),
    ]),
    placements.map(evidence),
  );
}

/** A machine without a reported price costs an unknown amount, and not nothing. */
const cost = (placement: Placement): string => {
  const { cost_usd, price_per_hour_usd } = placement;
  return rentedNothing(placement) ? "-" : costText({ cost_usd, machines: [{ price_per_hour_usd }] });
};

function took(io: Io, { opened_at, closed_at }: Placement): string {
  const ms = (closed_at === null ? Date.now() : Date.parse(closed_at)) - Date.parse(opened_at);
  return io.tty ? duration(ms) : (Math.max(0, ms) / 1_000).toFixed(3);
}

function evidence(placement: Placement): string | null {
  const parts = [...(placement.error === null ? [] : [placement.error.message]), ...accountWords(placement)];
  return parts.length === 0 ? null : parts.join(" · ");
}

export function waitingTable(io: Io, waiting: Waiting): string {
  return table(
    io,
    [
      { title: io.tty ? "CANDIDATE" : "", right: io.tty },
      ...(io.tty ? [] : [{ title: "" }]),
      { title: "PROVIDER" },
      { title: "GPUS" },
      { title: "WHY NOT", shrinks: true },
    ],
    waiting.tried.map(({ candidate, provider, gpus, why }) => [
      ...(io.tty ? [] : ["tried"]),
      String(candidate),
      provider,
      gpus,
      why,
    ]),
  );
}

/** One line for people: since when, until when, and when svc asks again. */
export function waitingWords(io: Io, { since, until, next_at, limit }: Waiting): string {
  if (limit !== null)
    return `${limit.why}. In the queue since ${instant(io, since)}, position ${limit.position} of ${limit.of}. No machine exists and nothing is billed.`;
  const parts = [
    `waiting for a machine since ${instant(io, since)}`,
    next_at === null ? "asking now" : `next search at ${instant(io, next_at)}`,
    ...(until === null ? [] : [`gives up at ${instant(io, until)}`]),
  ];
  return `${parts.join(", ")}. No machine exists and nothing is billed.`;
}
