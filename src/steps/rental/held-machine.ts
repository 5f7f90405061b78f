// The machine that a node holds, and the provider's statement about it when it cannot be reached.

import { SvcError, type ErrorCode } from "../../errors/index.ts";
import type { Guard, MachineAccess } from "../../providers/host.ts";
import {
  CANNOT_ASK,
  neverReached,
  type MachineHandle,
  type MachineStatus,
  type Provider,
} from "../../providers/provider.ts";
import { CLOSED_MINUTES } from "./tunnel-outage.ts";
import { heldEntry } from "./held-entry.ts";
import { assertSameAccount, learnAccount } from "./account-check.ts";
import { checkCap } from "../provision.ts";
import type { Ledger, StepPorts } from "../ports.ts";
import type { StepContext } from "../step.ts";

export interface HeldMachine {
  provider: Provider;
  handle: MachineHandle;
  access: MachineAccess;
}

/** The ledger's handle of the machine that a node holds; null if it holds none. */
export const heldHandle = (ledger: Pick<Ledger, "open">, jobId: string, node: number): MachineHandle | null =>
  heldEntry(ledger, jobId, node)?.handle ?? null;

/** Throws `machine_lost` if the ledger has none. */
export function heldMachine(ports: StepPorts, { jobId, node }: Pick<StepContext, "jobId" | "node">): HeldMachine {
  const provider = ports.provider(ports.facts(jobId).spec.provider);
  const handle = heldHandle(ports.ledger, jobId, node);
  if (!handle) throw new SvcError("machine_lost", { provider: provider.name, machine: `of node ${node}` });
  return { provider, handle, access: provider.access(handle) };
}

/**
 * Asks the provider once. Its endpoints and price go into the ledger. Throws `machine_lost`, `machine_broken`,
 * `machine_preempted`, and `price_cap_exceeded` if the price has risen above the cap.
 */
export async function lookAtMachine(ports: StepPorts, context: StepContext, held: HeldMachine): Promise<MachineStatus> {
  const { provider } = held;
  const askedAt = ports.now();
  ports.looks.asked(held.handle.name);
  const status = await provider.inspect(held.handle, context.signal);
  const { spec } = ports.facts(context.jobId);
  const { nodes } = spec;
  const { name } = held.handle;
  const about = { provider: provider.name, machine: nodes > 1 ? `${name} (node ${context.node})` : name };
  const entry = ports.ledger.open(context.jobId, context.node).find((one) => one.name === name);
  // A step may be hours old: the price of an earlier poll is in the ledger.
  const handle = entry?.handle && entry.handle.id === held.handle.id ? entry.handle : held.handle;
  if (status.phase === "gone") {
    if (entry) await assertSameAccount(provider, entry, context.signal, handle);
    if (status.preempted)
      throw new SvcError("machine_preempted", { ...about, why: status.why ?? "it gave no reason", gone: true });
    throw new SvcError("machine_lost", { ...about, why: status.why });
  }
  if (status.phase === "broken") {
    // A machine that never came up is replaced by another one of the same order.
    if (status.preempted && status.elsewhere !== true)
      throw new SvcError("machine_preempted", { ...about, why: status.why });
    const elsewhere = status.elsewhere === true ? ({ elsewhere: true } as const) : {};
    const image = status.image === true ? ({ image: true } as const) : {};
    throw new SvcError("machine_broken", { ...about, why: status.why, ...elsewhere, ...image });
  }
  if (status.phase === "starting") {
    if (status.cheaper === true) await ports.ledger.cheaper(handle.name, askedAt);
    else if (typeof status.priceMicro === "number") {
      const { priceOffered: _, ...known } = billedWhole(handle);
      await ports.ledger.known(handle.name, { ...known, priceMicro: status.priceMicro });
      checkCap(provider, spec, status.priceMicro, "svc releases it");
    } else if (handle.billedMicro !== undefined && status.priceMicro === null)
      await ports.ledger.known(handle.name, billedWhole(handle));
    return status;
  }
  if (entry) await learnAccount(ports.ledger, provider, entry, handle, context.signal);
  const { priceOffered, ...last } = billedWhole(handle);
  const known: MachineHandle = {
    ...last,
    ...(priceOffered && (status.priceMicro ?? null) === null ? { priceOffered } : {}),
    address: status.address ?? handle.address,
    priceMicro: status.priceMicro ?? handle.priceMicro,
    ...(status.ssh === undefined ? {} : { ssh: status.ssh }),
    ...(status.privateAddress ? { extra: { ...handle.extra, private_address: status.privateAddress } } : {}),
  };
  await ports.ledger.known(handle.name, known);
  checkCap(provider, spec, known.priceOffered ? null : known.priceMicro, "svc releases it");
  return status;
}

/**
 * Asks about the machine of each other node of the job, unless a step has asked about it shortly before. Throws `price_cap_exceeded` if one
 * costs too much; the nodes' own steps judge everything else.
 */
export async function lookAtOtherNodes(ports: StepPorts, context: StepContext): Promise<void> {
  const { jobId } = context;
  for (let node = 0; node < ports.facts(jobId).spec.nodes; node++) {
    const entry = node === context.node ? undefined : heldEntry(ports.ledger, jobId, node);
    if (entry?.state !== "held" || ports.looks.isWatched(entry.name)) continue;
    try {
      await lookAtMachine(ports, { ...context, node }, heldMachine(ports, { jobId, node }));
    } catch (e) {
      if (context.signal.aborted || (e instanceof SvcError && e.code === "price_cap_exceeded")) throw e;
    }
  }
}

/** It has run: no later time counts at the lower price. */
function billedWhole({ billedMicro: _, ...handle }: MachineHandle): MachineHandle {
  return handle;
}

const VERDICTS: ReadonlySet<string> = new Set([
  "machine_lost",
  "machine_broken",
  "machine_preempted",
  "price_cap_exceeded",
  "price_unknown",
]);

/**
 * Whether a poll's error ends a run. An unreachable provider ends none, even if the key is missing or was changed: that
 * says nothing about the machine.
 */
export const isVerdict = (thrown: unknown): boolean => thrown instanceof SvcError && VERDICTS.has(thrown.code);

/**
 * Extends the machine's own deadline, and makes sure that its guard runs. False without a guard: the run continues,
 * because the control plane and the provider's own limit remain.
 */
export async function holdMachine(
  ports: StepPorts & { guard: (jobId: string, handle: MachineHandle) => Guard | null },
  { jobId, signal }: Pick<StepContext, "jobId" | "signal">,
  { access, handle }: HeldMachine,
): Promise<boolean> {
  const guard = ports.guard(jobId, handle);
  if (!guard) return false;
  try {
    await access.keep(guard, signal);
    return true;
  } catch (e) {
    if (e instanceof SvcError && e.code === "machine_unfit") return false;
    throw e;
  }
}

/** Throws `runtime_gone` if the tunnel of a machine without a provider API has refused logins for long enough. */
function judgeWay(ports: StepPorts, machine: string, e: unknown): void {
  if (!(e instanceof SvcError) || e.code !== "ssh_unreachable") return;
  const { why, closed } = e.data as { why: string; closed?: boolean };
  if (!closed) return ports.ways.open(machine);
  if (ports.ways.closed(machine))
    throw new SvcError("runtime_gone", { machine, why, minutes: CLOSED_MINUTES }, { cause: e });
}

/** Why svc cannot log in, as far as this computer is the reason: an SSH agent without the key, a credential store that is being edited. */
const NO_KEY: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "ssh_key_unusable",
  "credentials_unusable",
  "user_home_unknown",
  ...CANNOT_ASK,
]);

/** Whether this computer lacks the key for the login now. That says nothing about the machine, and its owner can put it right meanwhile. */
export const lacksKey = (thrown: unknown): thrown is SvcError => thrown instanceof SvcError && NO_KEY.has(thrown.code);

/** A fault of this computer must not end a run on a machine, which works on: the step is retried. */
function retried(thrown: unknown): unknown {
  if (!lacksKey(thrown) && !(thrown instanceof SvcError && thrown.code === "home_unusable")) return thrown;
  if (thrown.retry === "backoff") return thrown;
  const { code, data, errors } = thrown;
  return new SvcError(code, data, { cause: thrown, retry: "backoff", ...(errors ? { errors } : {}) });
}

const hadLogin = (handle: MachineHandle): boolean => neverReached(handle).elsewhere !== true;

/**
 * Runs `act`. An unreachable machine is not a verdict, nor is a key that this computer lacks: the provider is asked, and only its answer
 * counts; otherwise the step is retried.
 */
export async function reaching<T>(
  ports: StepPorts,
  context: StepContext,
  held: HeldMachine,
  act: () => Promise<T>,
): Promise<T> {
  const { name } = held.handle;
  try {
    const acted = await act();
    ports.ways.open(name);
    return acted;
  } catch (e) {
    if (!held.provider.info.capabilities.owns_machine) judgeWay(ports, name, e);
    const lost = e instanceof SvcError && (e.code === "ssh_unreachable" || e.code === "ssh_refused" || lacksKey(e));
    if (!lost || held.access.inPlace || context.signal.aborted) throw retried(e);
    if (e.code === "ssh_refused") await held.provider.attachKey?.(held.handle, context.signal).catch(() => undefined);
    try {
      if (e.code === "ssh_unreachable" && hadLogin(held.handle)) held.provider.unreachable?.(held.handle);
      await lookAtMachine(ports, context, held);
    } catch (verdict) {
      if (isVerdict(verdict)) throw verdict;
    }
    throw retried(e);
  }
}
