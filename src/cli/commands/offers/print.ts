// The table of `svc offers`, in groups, and the lines about what it leaves out.

import { safeField } from "../../../domain/terminal-text.ts";
import { hourly } from "../../../errors/dollars.ts";
import type { LiveOffer, Offers } from "../../../schemas/offers.ts";
import { rateCell } from "../../cells.ts";
import type { Io } from "../../io.ts";
import { table } from "../../text.ts";

export const GROUPS = ["gpu", "provider", "none"] as const;
type Group = (typeof GROUPS)[number];

type Row = LiveOffer & {
  /** The number of offers that this row represents. */
  offers: number;
};

/** The list is sorted by price, so the first of each group is its cheapest. */
export function grouped(list: readonly LiveOffer[], group: Group): Row[] {
  if (group === "none") return list.map((offer) => ({ ...offer, offers: 1 }));
  const groups = Map.groupBy(list, ({ provider, gpus }) => (group === "gpu" ? gpus : `${provider} ${gpus}`));
  return [...groups.values()].flatMap((all) => all.slice(0, 1).map((offer) => ({ ...offer, offers: all.length })));
}

export const offersTable = (io: Io, rows: readonly Row[], group: Group): string =>
  table(
    io,
    [
      { title: "GPUS" },
      { title: "PROVIDER" },
      { title: "$/H", right: true },
      { title: "SPOT", leaves: 2 },
      ...(group === "none" ? [] : [{ title: "OFFERS", right: true, leaves: 1 }]),
      { title: "OFFER", shrinks: true },
      { title: "NOTE", shrinks: true, leaves: 3 },
    ],
    rows.map((row) => [
      row.gpus,
      row.provider,
      rateCell(io, row.price_per_hour_usd, hourly, "unknown"),
      row.spot ? "spot" : "",
      ...(group === "none" ? [] : [String(row.offers)]),
      Object.values(row.facts).join(" · ") || row.id,
      row.avoided ?? "",
    ]),
  );

/** Prints the offers that the table leaves out, and the providers that did not answer. */
export function tellRest(told: Offers, within: number, cap: number | undefined, io: Io): void {
  const above = told.offers.length - within;
  if (above > 0 && cap !== undefined)
    io.err(`${above} ${above === 1 ? "offer is" : "offers are"} above ${hourly(cap)}.`);
  if (told.open > 0)
    io.err(
      `${told.open} ${told.open === 1 ? "question is" : "questions are"} not answered yet: name the GPUs, or ask again in a moment.`,
    );
  if (told.offers.length === 0 && told.asked.some(({ error }) => error === null))
    io.err(
      "The providers have no such machine now. `svc gpus` lists models; `svc plan` explains why a run would wait.",
    );
  const failed = new Map(
    told.asked.flatMap(({ provider, error }) =>
      error === null ? [] : [[`${provider}: ${error.message}`, error.hint]],
    ),
  );
  for (const [message, hint] of failed) io.err(`${safeField(message)}\n${safeField(hint)}`);
}
