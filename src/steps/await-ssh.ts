// The await_ssh step: waits until an existing machine accepts a login and can serve the run.

import { SvcError } from "../errors/index.ts";
import type { MachineFacts } from "../providers/host.ts";
import { CANNOT_ASK, type MachineStatus } from "../providers/provider.ts";
import { heldMachine, holdMachine, lacksKey, lookAtMachine, lookAtOtherNodes } from "./rental/held-machine.ts";
import { endLeftovers } from "./rental/release-borrowed.ts";
import { costSoFar, judgeMachine, type Faults } from "./rental/machine-fit.ts";
import { Pace } from "./poll-backoff.ts";
import type { RunServices } from "./run-services.ts";
import type { StepContext, StepDefinition, StepDone, StepLater } from "./step.ts";

const MINUTE_MS = 60_000;
/** The longest time between two polls. */
const LOOK_MS_MAX = 5_000;
/** A tunnel counts every connection. */
const LOOK_MS_TUNNEL = 5_000;
/** Keys arrive on a machine some time after its sshd starts; after this long they will not arrive. */
const REFUSED_MAX_MS = 4 * MINUTE_MS;

export function awaitSshStep(services: RunServices): StepDefinition {
  const pace = new Pace({ minMs: 400, maxMs: LOOK_MS_MAX, factor: 1.4 });
  /** By effect: when the machine first refused our key. */
  const refused = new Map<number, number>();
  const faults: Faults = new Map();
  return {
    name: "await_ssh",
    retry: { attemptsMax: 60, delayMsMin: 500, delayMsMax: 20_000 },
    attemptMs: 5 * MINUTE_MS,
    async run(context) {
      const { effectId } = context;
      const result = await look(services, context, { refused, faults }, pace.next(effectId));
      if ("done" in result) {
        pace.over(effectId);
        refused.delete(effectId);
        faults.delete(effectId);
      }
      return result;
    },
  };
}

async function look(
  services: RunServices,
  context: StepContext,
  { refused, faults }: { refused: Map<number, number>; faults: Faults },
  paceMs: number,
): Promise<StepDone | StepLater> {
  let status: MachineStatus;
  try {
    status = await lookAtMachine(services, context, heldMachine(services, context));
    await lookAtOtherNodes(services, context);
  } catch (e) {
    // This says nothing about the machine, which may cost money: the step waits until the provider can be asked again.
    if (!(e instanceof SvcError && CANNOT_ASK.has(e.code))) throw e;
    return { later: { afterMs: LOOK_MS_MAX, why: e.message } };
  }
  if (status.phase === "starting") return { later: { afterMs: paceMs, why: status.why } };
  // Read again: the poll has stored the machine's new address.
  const held = heldMachine(services, context);
  const { provider, handle, access } = held;
  if (access.inPlace) return { done: {}, detail: { address: handle.address ?? "this computer" } };
  const later = (e: SvcError): StepLater => ({
    later: { afterMs: provider.info.capabilities.owns_machine ? paceMs : LOOK_MS_TUNNEL, why: e.message },
  });
  let facts: MachineFacts;
  try {
    facts = await access.greet(context.signal);
  } catch (e) {
    if (!(e instanceof SvcError) || context.signal.aborted) throw e;
    if (e.code === "ssh_refused") {
      const since = refused.get(context.effectId) ?? services.now();
      refused.set(context.effectId, since);
      if (services.now() - since > REFUSED_MAX_MS)
        throw new SvcError("machine_unfit", { machine: handle.name, why: e.message }, { cause: e });
      await provider.attachKey?.(handle, context.signal).catch(() => undefined);
      return later(e);
    }
    if (e.code === "ssh_unreachable" || lacksKey(e)) return later(e);
    throw e;
  }
  const { spec } = services.facts(context.jobId);
  const owned = provider.info.capabilities.owns_machine;
  const fit = judgeMachine(spec, facts, { faults, effectId: context.effectId, now: services.now() });
  if (owned && fit.wait !== null) return { later: { afterMs: LOOK_MS_MAX, why: fit.wait } };
  if (owned && fit.unfit !== null) {
    const entry = services.ledger.open(context.jobId, context.node).find(({ name }) => name === handle.name);
    const cost = costSoFar(handle.priceMicro, services.now() - (entry?.createdAt ?? services.now()));
    throw new SvcError("machine_unfit", { machine: handle.name, why: `${fit.unfit}${cost}` });
  }
  const { beside: _beside, ...told } = facts;
  const leftovers = provider.info.capabilities.owns_machine
    ? []
    : await endLeftovers(services, held, facts, context.signal);
  const { home, python } = facts;
  const known = { ...handle, extra: { ...handle.extra, home, python } };
  await services.ledger.known(handle.name, known);
  const guarded = await holdMachine(services, context, heldMachine(services, context));
  if (!guarded && services.guard(context.jobId, known) !== null) {
    const words = `The machine ${handle.name} cannot guard itself (its user is not root and may not become it): if this computer never comes back, only the provider's own limit ends it.`;
    await services.sink.notice(context.jobId, "warning", words);
  }
  const ended = leftovers.length > 0 ? { ended_leftovers_of: leftovers } : {};
  const doubts = [fit.wait ?? fit.unfit].filter((why) => why !== null).map((why) => `Of ${handle.name}: ${why}.`);
  for (const words of [...doubts, ...fit.warnings]) await services.sink.notice(context.jobId, "warning", words);
  return { done: {}, detail: { address: handle.address, ...told, guarded, ...ended } };
}
