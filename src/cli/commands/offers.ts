// `svc offers` asks all connected providers what they rent out now. offers/ask.ts asks, offers/print.ts prints.

import { GPU_CATALOGUE } from "../../domain/gpus.ts";
import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import { SPOT_CHOICES } from "../../schemas/names.ts";
import { oneOf, usage, value, whole } from "../argv.ts";
import type { Command } from "../command.ts";
import { printList } from "../text.ts";
import { askForOffers } from "./offers/ask.ts";
import { grouped, GROUPS, offersTable, tellRest } from "./offers/print.ts";

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
    const told = await askForOffers(input.args, query, io);
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
