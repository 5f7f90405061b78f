// `svc offers` asks all connected providers what they rent out now. Through the control plane if one runs, which
// remembers answers for five minutes; else in this process.

import { GPU_CATALOGUE } from "../../domain/gpus.ts";
import { hourly } from "../../errors/dollars.ts";
import { SvcError } from "../../errors/index.ts";
import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import { SPOT_CHOICES } from "../../schemas/names.ts";
import type { LiveOffer, Offers, OffersQuery } from "../../schemas/offers.ts";
import { oneOf, usage, value, whole } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { printList, table } from "../text.ts";

const GROUPS = ["gpu", "provider", "none"] as const;
type Group = (typeof GROUPS)[number];

const FIELDS = [
  "provider",
  "gpus",
  "price_per_hour_usd",
  "spot",
  "id",
  "facts",
  "within_cap",
  "avoided",
  "age_seconds",
  "offers",
] as const;

export const offers: Command = {
  name: "offers",
  args: "[...gpus]",
  summary: "List what the connected providers rent out now, with live prices; rents nothing",
  options: [
    { flags: "--provider <provider>", what: "Only offers of this provider", values: PROVIDER_NAMES },
    { flags: "--price-cap <usd>", what: "Only offers up to this price, in dollars per hour" },
    { flags: "--region <region>", what: "Only in this region, in the provider's own naming" },
    {
      flags: "--spot <choice>",
      what: `Spot machines: ${SPOT_CHOICES.join(", ")} (default never)`,
      values: SPOT_CHOICES,
    },
    {
      flags: "--group <by>",
      what: "gpu: the cheapest offer of each GPU; provider: of each provider and GPU; none: every offer (default none with GPUS, else provider)",
      values: GROUPS,
    },
    { flags: "--limit <n>", what: "At most this many rows" },
  ],
  exits: [
    ["1", "no offer matches"],
    ["4", "no provider with prices is connected"],
    ["5", "no provider could be reached"],
  ],
  fields: FIELDS,
  examples: [
    "svc offers",
    "svc offers H100 A100:8 --price-cap 20",
    "svc offers --group gpu --spot prefer",
    "svc offers RTX4090 --json provider,price_per_hour_usd,facts",
  ],
  completes: () => GPU_CATALOGUE.map(({ model }) => model),
  async run(input, io) {
    const cap = usdOf(value(input, "price-cap"));
    const region = value(input, "region");
    const provider = oneOf(input, "provider", PROVIDER_NAMES);
    const spot = oneOf(input, "spot", SPOT_CHOICES);
    const group = oneOf(input, "group", GROUPS) ?? (input.args.length > 0 ? "none" : "provider");
    const limit = whole(input, "limit", { min: 1, max: 100_000 });
    const query = {
      ...(provider === undefined ? {} : { provider }),
      ...(region === undefined ? {} : { region }),
      ...(spot === undefined ? {} : { spot }),
      ...(cap === undefined ? {} : { price_cap: cap }),
    };
    const told = await ask(input, query, io);
    const within = told.offers.filter((offer) => cap === undefined || offer.within_cap);
    const rows = grouped(within, group).slice(0, limit);
    if (input.json) await printList(io, input, { offers: rows, asked: told.asked, open: told.open }, rows);
    else if (rows.length > 0) await io.out(offersTable(io, rows, group));
    tellRest(told, within.length, cap, io);
    if (told.asked.length > 0 && told.asked.every(({ error }) => error !== null)) return 5;
    return rows.length === 0 ? 1 : 0;
  },
};

function usdOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,9}(\.\d{1,9})?$/.test(text))
    throw usage(`--price-cap must be a number of dollars, not \`${text}\`.`, "Write digits, such as 2 or 2.5.");
  return Number(text);
}

async function ask(input: Input, query: OffersQuery, io: Io): Promise<Offers> {
  const queries = input.args.length === 0 ? [query] : input.args.map((gpus) => ({ ...query, gpus: gpusOf(gpus) }));
  const client = await runningClient(io);
  const answers = client
    ? await Promise.all(queries.map((each) => client.offers(each, io.interrupted)))
    : await withOwnControlPlane(io, "look", (cp) => Promise.all(queries.map((each) => cp.offers(each))));
  const price = (offer: LiveOffer): number => offer.price_per_hour_usd ?? Infinity;
  const all = {
    offers: answers.flatMap((answer) => answer.offers).toSorted((a, b) => price(a) - price(b) || 0),
    asked: answers.flatMap(({ asked }) => asked),
    open: answers.reduce((sum, { open }) => sum + open, 0),
  };
  if (all.asked.length === 0 && all.open === 0)
    throw new SvcError("credential_missing", {
      provider: query.provider ?? "any provider",
      missing: "no provider that rents out machines is connected",
    });
  return all;
}

/** As in runs: `H100`, `A100:8`. */
function gpusOf(text: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9 ._/+-]{0,62}(:[1-9][0-9]{0,2})?$/.test(text) && text !== "cpu") return text;
  throw usage(
    `\`${text}\` is not a GPU.`,
    "Write MODEL or MODEL:COUNT, such as H100 or A100:8; `svc gpus` lists models.",
  );
}

type Row = LiveOffer & {
  /** The number of offers that this row represents. */
  offers: number;
};

/** The list is sorted by price, so the first of each group is its cheapest. */
function grouped(list: readonly LiveOffer[], group: Group): Row[] {
  if (group === "none") return list.map((offer) => ({ ...offer, offers: 1 }));
  const groups = Map.groupBy(list, ({ provider, gpus }) => (group === "gpu" ? gpus : `${provider} ${gpus}`));
  return [...groups.values()].flatMap((all) => all.slice(0, 1).map((offer) => ({ ...offer, offers: all.length })));
}

const offersTable = (io: Io, rows: readonly Row[], group: Group): string =>
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
      row.price_per_hour_usd === null
        ? io.tty
          ? "unknown"
          : ""
        : io.tty
          ? hourly(row.price_per_hour_usd)
          : String(row.price_per_hour_usd),
      row.spot ? "spot" : "",
      ...(group === "none" ? [] : [String(row.offers)]),
      Object.values(row.facts).join(" · ") || row.id,
      row.avoided ?? "",
    ]),
  );

/** Prints the offers that the table leaves out, and the providers that did not answer. */
function tellRest(told: Offers, within: number, cap: number | undefined, io: Io): void {
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
