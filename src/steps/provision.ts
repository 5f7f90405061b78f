// Renting a machine, never two for one node and never one that nobody knows of.
//
// R1. The intent is durable before the request leaves. No intent, no request.
// R2. An order whose answer is missing is looked up until it is found or cannot exist any more; only then is there a next order.
// R3. A kill does not abort a create call: its answer is written down even when nobody waits for it.

import { SvcError } from "../errors/index.ts";
import { nodePrefix } from "../domain/machine-names.ts";
import type { MachineHandle, Offer, Provider } from "../providers/provider.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { lookUp } from "./look-up.ts";
import type { StepPorts } from "./ports.ts";
import { throwIfAborted, type StepContext, type StepDefinition, type StepDone, type StepLater } from "./step.ts";

/** An intent older than this is renewed before its request leaves: the process may have slept in between. */
const INTENT_FRESH_MS = 5_000;

export function provisionStep(ports: StepPorts): StepDefinition {
  return {
    name: "provision",
    retry: { attemptsMax: 8, delayMsMin: 1_000, delayMsMax: 60_000 },
    attemptMs: 10 * 60_000,
    async run(context: StepContext): Promise<StepDone | StepLater> {
      const { jobId, node, signal } = context;
      const { spec } = ports.facts(jobId);
      const provider = ports.provider(spec.provider);
      for (const entry of ports.ledger.open(jobId, node)) {
        if (entry.handle !== null) {
          const status = await provider.inspect(entry.handle, signal);
          if (status.phase !== "gone") return affordably(spec, entry.handle);
          await ports.ledger.released(entry.name, "the provider says that it does not exist");
          continue;
        }
        const found = await lookUp(ports, provider, entry, signal);
        if (found.is === "held") return affordably(spec, found.handle);
        if (found.is === "open") return { later: { afterMs: found.afterMs, why: found.why } };
      }
      const offer = affordable(provider, spec, await provider.listOffers(spec, signal));
      throwIfAborted(signal);
      return affordably(spec, await order(ports, provider, offer, context, spec));
    },
  };
}

const done = (handle: MachineHandle): StepDone => ({
  done: {},
  detail: {
    machine: handle.name,
    ...(handle.priceMicro === null ? {} : { price_per_hour_usd: handle.priceMicro / 1e6 }),
  },
});

/** However the machine was come by, ordered just now or found again: its own price counts, not the offer's. */
function affordably(spec: RunSpec, handle: MachineHandle): StepDone {
  checkCap(spec, handle.priceMicro);
  return done(handle);
}

function affordable(provider: Provider, spec: RunSpec, offers: Offer[]): Offer {
  const priced = offers.filter(
    (o) =>
      !provider.info.capabilities.reports_price ||
      (o.priceMicro !== null && Number.isFinite(o.priceMicro) && o.priceMicro >= 0),
  );
  const offer = priced.toSorted((a, b) => (a.priceMicro ?? 0) - (b.priceMicro ?? 0))[0];
  if (offer === undefined) throw new SvcError("no_offer", { provider: provider.name, gpus: spec.gpus });
  checkCap(spec, offer.priceMicro);
  return offer;
}

function checkCap(spec: RunSpec, priceMicro: number | null): void {
  if (spec.price_cap === undefined || priceMicro === null) return;
  // Written so that NaN fails: a price that is not a number is never within the cap.
  if (!(priceMicro <= spec.price_cap * 1e6))
    throw new SvcError("price_cap_exceeded", { offered: priceMicro / 1e6, cap: spec.price_cap });
}

async function order(
  ports: StepPorts,
  provider: Provider,
  offer: Offer,
  context: StepContext,
  spec: RunSpec,
): Promise<MachineHandle> {
  const { jobId, node, signal } = context;
  const ordinal = ports.ledger.nextOrdinal(jobId, node);
  const name = `${nodePrefix(ports.installationId, jobId, node)}${ordinal}`;
  // The request may leave that long after the stamp, and the provider counts from when it left.
  const horizon = () => ports.now() + INTENT_FRESH_MS + provider.certainty.horizonMs;
  let stampedAt = ports.now();
  await ports.ledger.intend({ name, jobId, node, ordinal, provider: provider.name, horizonAt: horizon() });
  while (ports.now() - stampedAt > INTENT_FRESH_MS) {
    stampedAt = ports.now();
    await ports.ledger.renew(name, horizon());
  }
  if (signal.aborted) {
    await ports.ledger.released(name, "the request was never sent");
    throw signal.reason;
  }
  let handle: MachineHandle;
  try {
    handle = await provider.create(offer, { name, jobId, node, spec });
  } catch (e) {
    await ports.ledger.unknown(
      name,
      "The create call failed or its answer was lost; the machine may exist and cost money until it is looked up.",
    );
    throw e;
  }
  await ports.ledger.held(name, handle);
  return handle;
}
