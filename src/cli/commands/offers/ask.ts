// Asks the connected providers for `svc offers`: through the control plane if one runs, which remembers answers for five minutes; else in
// this process.

import { SvcError as WireError } from "../../../../sdk/errors.ts";
import { DESCRIPTORS, PROVIDER_NAMES } from "../../../providers/descriptors.ts";
import type { LiveOffer, Offers, OffersQuery } from "../../../schemas/offers.ts";
import { usage } from "../../argv.ts";
import { runningClient, withOwnControlPlane } from "../../control-plane.ts";
import type { Io } from "../../io.ts";

/** Those with machines that have GPUs and a price. */
const RENTING = PROVIDER_NAMES.filter((name) => {
  const { bills, gpus } = DESCRIPTORS[name].capabilities;
  return bills && gpus !== "none";
});

/** One question for each GPU, or one for all; the answers together, the cheapest first. Throws `credential_missing` without a provider to ask. */
export async function askForOffers(names: readonly string[], query: OffersQuery, io: Io): Promise<Offers> {
  const { provider } = query;
  if (provider !== undefined && !RENTING.includes(provider))
    throw usage(`${provider} rents out no machines.`, `The providers that do are ${RENTING.join(", ")}.`);
  const queries = names.length === 0 ? [query] : names.map((gpus) => ({ ...query, gpus: gpusOf(gpus) }));
  const client = await runningClient(io);
  const answers = client
    ? await Promise.all(queries.map((each) => client.offers(each, io.interrupted)))
    : await withOwnControlPlane(io, "look", (cp) => Promise.all(queries.map((each) => cp.offers(each))), {
        onlyReads: true,
      });
  const price = (offer: LiveOffer): number => offer.price_per_hour_usd ?? Infinity;
  const all = {
    offers: answers.flatMap((answer) => answer.offers).toSorted((a, b) => price(a) - price(b) || 0),
    asked: answers.flatMap(({ asked }) => asked),
    open: answers.reduce((sum, { open }) => sum + open, 0),
  };
  if (all.asked.length === 0 && all.open === 0)
    throw new WireError({
      code: "credential_missing",
      message:
        provider === undefined ? "No provider that rents out machines is connected." : `${provider} is not connected.`,
      hint:
        provider === undefined
          ? `\`svc credentials set NAME\` connects one; NAME is one of ${RENTING.join(", ")}.`
          : `\`svc credentials set ${provider}\` connects it.`,
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
