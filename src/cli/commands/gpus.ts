// `svc gpus`: the catalogue of GPU models, with this installation's own history.

import { PROVIDER_NAMES } from "../../providers/descriptors.ts";
import { oneOf } from "../argv.ts";
import { historyWords } from "../../domain/host-history.ts";
import { hourly } from "../../errors/dollars.ts";
import type { LiveOffer } from "../../schemas/offers.ts";
import type { ProviderName } from "../../schemas/spec.ts";
import type { HostStats } from "../../schemas/hosts.ts";
import type { Command } from "../command.ts";
import type { Io } from "../io.ts";
import { withStoreQuietly } from "../store.ts";
import { printList, table } from "../text.ts";

/** Longer answers are shown the next time: the control plane remembers them. */
const PRICES_SECONDS = 3;

export const gpus: Command = {
  name: "gpus",
  summary: "List known GPU models, who offers them, and, while a control plane runs, the cheapest price now",
  options: [
    {
      flags: "--provider <name>",
      what: `Only GPUs that this provider commonly offers: ${PROVIDER_NAMES.join(", ")}`,
      values: PROVIDER_NAMES,
    },
  ],
  fields: ["model", "vram_gb", "providers", "cheapest"],
  examples: ["svc gpus", "svc gpus --provider market", "svc gpus --json model,cheapest"],
  async run(input, io) {
    const provider = oneOf(input, "provider", PROVIDER_NAMES);
    const { listGpus } = await import("../../domain/gpus.ts");
    const list = listGpus(provider);
    const stats = await ownHistory(io);
    const own = (model: string): string =>
      stats
        .filter((each) => each.gpu === model && (provider === undefined || each.provider === provider))
        .map((each) => `${each.provider}: ${historyWords(each)}`)
        .join("; ");
    const prices = await livePrices(io, provider);
    const told = list.some(({ model }) => own(model) !== "");
    const priced = list.map((g) => ({ ...g, cheapest: prices?.get(g.model) ?? null }));
    if (input.json) await printList(io, input, { gpus: priced, history: stats }, priced);
    else
      await io.out(
        list.length
          ? table(
              io,
              [
                { title: "MODEL" },
                { title: "VRAM GB", right: true },
                { title: "PROVIDERS", leaves: 1 },
                ...(prices ? [{ title: "CHEAPEST NOW" }] : []),
                ...(told ? [{ title: "YOUR MACHINES" }] : []),
              ],
              priced.map((g) => [
                g.model,
                String(g.vram_gb),
                g.providers.join(io.tty ? ", " : ","),
                ...(prices ? [cheapestWords(io, g.cheapest)] : []),
                ...(told ? [own(g.model)] : []),
              ]),
            )
          : "",
      );
    if (io.tty && !input.json && list.length === 0) io.err(`${provider} offers none of the listed GPUs; use gpus=cpu.`);
    return 0;
  },
};

/** The cheapest offer of each model; null if no control plane runs or no provider answers, so that the list itself is never late. */
async function livePrices(io: Io, provider: ProviderName | undefined): Promise<Map<string, LiveOffer> | null> {
  const { runningClient } = await import("../control-plane.ts");
  try {
    const client = await runningClient(io);
    const told = await client?.offers(
      { within_seconds: PRICES_SECONDS, ...(provider === undefined ? {} : { provider }) },
      io.interrupted,
    );
    if (told === undefined || told.asked.every(({ error }) => error !== null)) return null;
    const priced = told.offers.filter(({ price_per_hour_usd: usd }) => usd !== null);
    return new Map(priced.toReversed().map((offer) => [offer.gpus, offer]));
  } catch {
    return null;
  }
}

function cheapestWords(io: Io, offer: LiveOffer | null): string {
  if (offer === null || offer.price_per_hour_usd === null) return io.tty ? "-" : "";
  if (!io.tty) return `${offer.price_per_hour_usd} ${offer.provider}`;
  return `${hourly(offer.price_per_hour_usd)} ${offer.provider}`;
}

/** How machines of this home have turned out; empty for a home that was never used. */
const ownHistory = (io: Io): Promise<HostStats["stats"]> =>
  withStoreQuietly(io, (reads) => reads?.hostStats().stats ?? []);
