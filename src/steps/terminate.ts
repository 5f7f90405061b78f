// The terminate step: releases the machine, and continues until the provider proves it gone. It never gives up.

import { nodePrefix } from "../domain/machine-names.ts";
import { askAhead, assertSameAccount, learnAccount } from "./rental/account-check.ts";
import { leave, NOT_LEFT } from "./rental/release-borrowed.ts";
import { lookUp } from "./rental/resolve-lost-order.ts";
import { ownedMachines } from "./rental/list-owned.ts";
import { Pace } from "./poll-backoff.ts";
import type { LedgerEntry, OrphanPorts, StepPorts } from "./ports.ts";
import type { StepContext, StepDefinition, StepDone, StepLater } from "./step.ts";
import { messageOf, SvcError } from "../errors/index.ts";
import type { MachineHandle, MachineStatus, Provider } from "../providers/provider.ts";
import type { Note } from "../schemas/job.ts";

/** Most machines take some seconds. A machine that is not listed yet, or stays, is polled less often. */
const LOOK_AGAIN_MS = 3_000;
const LOOK_AGAIN_MS_MAX = 10_000;
/** The first poll comes right after the request, and most machines take some seconds. */
const ASKED = "svc has released the machine; the provider has yet to confirm that it is gone.";
const ANOTHER =
  "The answer to the order has just named a second machine of this name, which costs money; svc releases it, too.";
const STILL_THERE =
  "The provider still lists the machine; it may still cost money. svc repeats the release until it is gone.";

export function terminateStep(ports: StepPorts): StepDefinition {
  const pace = new Pace({ minMs: LOOK_AGAIN_MS, maxMs: LOOK_AGAIN_MS_MAX, factor: 1.2 });
  const slower = (effectId: number, { later }: StepLater): StepLater => ({
    later: { ...later, afterMs: Math.max(later.afterMs, pace.next(effectId)) },
  });
  return {
    name: "terminate",
    retry: { attemptsMax: Infinity, delayMsMin: 1_000, delayMsMax: 20_000 },
    attemptMs: 3 * 60_000,
    async run({ jobId, node, effectId, signal }: StepContext): Promise<StepDone | StepLater> {
      const entries = ports.ledger.open(jobId, node);
      const waits = await each(entries, async (entry) => {
        // Only the provider that received an order can prove it closed; the job may use another provider by now.
        const provider = ports.provider(entry.provider);
        const { owns_machine } = provider.info.capabilities;
        const isLeft = owns_machine || entry.handle === null || (await leave(provider, entry.handle, signal));
        return release(ports, provider, entry, signal, isLeft ? null : NOT_LEFT);
      });
      const later = waits.filter((wait) => wait !== null).toSorted((a, b) => a.later.afterMs - b.later.afterMs)[0];
      if (later) return slower(effectId, later);
      // The ledger is clean. The provider decides: a create call may have made more machines than it reported.
      const provider = ports.provider(ports.facts(jobId).spec.provider);
      const prefix = nodePrefix(ports.installationId, jobId, node);
      const left = await listed(ports, provider, { jobId, node, signal }, prefix);
      await each(left, (handle) => provider.terminate(handle, signal));
      if (left.length > 0) return slower(effectId, { later: { afterMs: LOOK_AGAIN_MS, why: STILL_THERE } });
      pace.over(effectId);
      await ports.silent?.(jobId, node);
      // Every node reports it: only when the last one is released are the shards of all nodes downloaded, and the reason of the
      // end complete.
      const checkpoint = await ports.checkpoint?.(jobId);
      const lack = ports.budget?.lack(jobId) ?? null;
      return {
        done: { checkpoint: checkpoint ?? null, ...(lack === null ? {} : { lack }) },
        detail: { released: entries.map((e) => e.name) },
      };
    },
  };
}

/**
 * All at once: a machine that resists must not keep the others running. Throws the first failure once all were tried.
 */
async function each<T, R>(all: readonly T[], act: (one: T) => Promise<R>): Promise<R[]> {
  const outcomes = await Promise.allSettled(all.map(act));
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
}

/**
 * A silent provider must not block a job that never ordered anything: without an intent no request has left. Nor may a
 * silent part of it: by now each order is proven gone where it was sent, and machines in the listed rest are ended. The
 * sweep keeps asking that part for machines without an order until it answers.
 */
async function listed(
  { ledger }: StepPorts,
  provider: Provider,
  { jobId, node, signal }: Pick<StepContext, "jobId" | "node" | "signal">,
  prefix: string,
): Promise<MachineHandle[]> {
  try {
    const { machines, missing, gap } = await ownedMachines(provider, prefix, signal);
    // Unreadable pages may contain a second machine of this node. The listed machines are ended first.
    if (machines.length === 0 && gap === "anywhere") throw missing;
    return machines;
  } catch (e) {
    if (e instanceof SvcError && !signal.aborted && ledger.ordered(jobId, node, provider.name) === 0) return [];
    throw e;
  }
}

/** Null when the order is proven released. @param left a note about the machine that stays on its record */
export async function release(
  ports: OrphanPorts,
  provider: Provider,
  entry: LedgerEntry,
  signal: AbortSignal,
  left: Note | null = null,
): Promise<StepLater | null> {
  let handle = entry.handle;
  if (handle === null) {
    const found = await lookUp(ports, provider, entry, signal);
    if (found.is === "absent") return null;
    if (found.is === "open") return { later: { afterMs: found.afterMs, why: found.why } };
    handle = found.handle;
  }
  const first = entry.state !== "releasing";
  let why = ASKED;
  if (first) await ports.ledger.releasing(entry.name);
  // The control plane must not renew the lease of a machine that should end: while the provider fails, the guard on it ends it.
  if (provider.info.capabilities.bills) ports.gone?.(entry.name);
  try {
    const account = await learnAccount(ports.ledger, provider, entry, handle, signal);
    if (account !== null) void askAhead(provider, signal, handle);
    await provider.terminate(handle, signal);
    const status = await provider.inspect(handle, signal);
    if (status.phase === "gone") {
      await assertSameAccount(provider, { name: entry.name, account }, signal, handle);
      const proof = "terminated; the provider says that it does not exist";
      if (!(await ports.ledger.released(entry.name, proof, { of: handle.id, left })))
        return { later: { afterMs: LOOK_AGAIN_MS, why: ANOTHER } };
      ports.gone?.(entry.name);
      return null;
    }
    if (!first) {
      why = stillThere(status);
      if (handle.priceMicro !== 0) await ports.ledger.note(entry.name, { kind: "still_listed", message: why });
    }
  } catch (e) {
    if (!signal.aborted)
      await ports.ledger.note(entry.name, {
        kind: "terminate_failed",
        message: `The release failed; the machine may still cost money. svc retries until it is gone. ${messageOf(e)}`,
      });
    throw e;
  }
  return { later: { afterMs: LOOK_AGAIN_MS, why } };
}

/** Only for a machine in the listing does the message say that the provider lists it. */
const stillThere = (status: MachineStatus): string =>
  "why" in status && status.why !== undefined
    ? `The machine is not proven gone and may still cost money: ${status.why}. svc repeats the release until it is gone.`
    : STILL_THERE;
