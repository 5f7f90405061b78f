// Prints the answer of `svc plan`: one row for each offer, then price, warnings and refusals.

import { costText } from "../../../domain/money.ts";
import { longDuration } from "../../../domain/long-duration.ts";
import { hourly } from "../../../errors/dollars.ts";
import type { Plan, PlanOffer } from "../../../schemas/plan.ts";
import type { Io } from "../../io.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import { table } from "../../text.ts";

export async function tell(told: Plan, io: Io): Promise<void> {
  await io.out(
    table(
      io,
      [
        { title: "TRY", right: true },
        { title: "PROVIDER" },
        { title: "GPUS" },
        { title: "OFFER", shrinks: true },
        { title: "$/H", right: true },
        { title: "SPOT", leaves: 1 },
        { title: "AGE", right: true, leaves: 2 },
        { title: "NOTE", shrinks: true },
      ],
      told.candidates.flatMap((candidate) => candidateRows(io, told, candidate)),
    ),
  );
  if (io.tty) tellTerms(told, io);
  // Also in a pipe: a command that ends with 1 says why.
  for (const refusal of told.refusals)
    io.err(`Refused: ${safeField(refusal.message.replace(/([^.!?])$/, "$1."))} ${safeField(refusal.hint)}`);
}

function tellTerms(told: Plan, io: Io): void {
  const { price_per_hour_usd: price, cost_max_usd: most, budget_lasts_seconds: lasts } = told;
  if (price !== null && price > 0)
    io.err(
      `First ${hourly(price)}${most === null ? "" : `, at most ${costText({ cost_usd: most, machines: [] })}`}${lasts === null ? "" : `; the budget lasts for ${longDuration(Math.floor(lasts))}`}. Nothing was rented.`,
    );
  for (const warning of told.warnings) io.err(safeField(warning));
}

function candidateRows(io: Io, told: Plan, candidate: Plan["candidates"][number]): string[][] {
  const place = told.order.indexOf(candidate.candidate);
  const turn = place < 0 ? (io.tty ? "-" : "") : String(place + 1);
  const head = [turn, candidate.provider, candidate.gpus];
  const { expected_start: start, refusal } = candidate;
  const starts =
    start === null
      ? ""
      : `started within ${longDuration(Math.round(start.seconds))} (${start.runs === 1 ? "1 run" : `${start.runs} runs`})`;
  const offers = told.offers.filter((offer) => offer.candidate === candidate.candidate);
  // Reasons that no single offer states.
  if (offers.length === 0) return [[...head, "", "", "", "", refusal?.message ?? starts]];
  return offers.map((offer, i) => [
    ...(i === 0 ? head : ["", candidate.provider, candidate.gpus]),
    factsOf(offer),
    io.tty ? hourlyOr(offer.price_per_hour_usd) : String(offer.price_per_hour_usd ?? ""),
    offer.spot ? "spot" : "",
    io.tty ? `${Math.round(offer.age_seconds)} s` : offer.age_seconds.toFixed(3),
    [offer.within_cap ? "" : "above the cap", i === 0 ? (refusal?.message ?? starts) : ""]
      .filter((part) => part !== "")
      .join("; "),
  ]);
}

const hourlyOr = (usd: number | null): string => (usd === null ? "unknown" : hourly(usd));

const factsOf = (offer: PlanOffer): string => Object.values(offer.facts).join(" · ") || offer.id;
