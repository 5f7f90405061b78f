// Compares the records with the providers' listings and with the journals. Touches only machines with this
// installation's mark.

import { pause } from "../domain/clock.ts";
import { asSvcError, SvcError } from "../errors/index.ts";
import { installationPrefix } from "../domain/machine-names.ts";
import type { MachineHandle, Provider } from "../providers/provider.ts";
import type { ReconcileReport } from "../schemas/job.ts";
import { usdOrNull } from "../domain/money.ts";
import type { MachineRow } from "../store/tables.ts";
import { assertSameAccount, learnAccount } from "../steps/rental/account-check.ts";
import { ownedMachines } from "../steps/rental/list-owned.ts";
import type { OrphanPorts } from "../steps/ports.ts";
import { release } from "../steps/terminate.ts";
import type { Engine } from "./engine.ts";
import { refold } from "./journal.ts";
import { entryOf, type DurableLedger } from "./ledger.ts";

/** Number of checks of one orphan before the report leaves it to the next sweep. */
const LOOKS_MAX = 5;
const LOOK_GAP_MS = 500;

export interface ReconcileParts {
  engine: Engine;
  ledger: DurableLedger;
  providers: Map<string, Provider>;
  /** Whether there is a credential for this provider. */
  connected: (provider: string) => boolean;
}

type Swept = Pick<ReconcileReport, "terminated" | "failed" | "unreachable_providers">;

export async function reconcile(parts: ReconcileParts, options: { dryRun: boolean }): Promise<ReconcileReport> {
  const live = parts.engine.store.liveJobs();
  const replayed = live.map((row) => {
    const { text, differsAt } = refold(parts.engine.store.journal(row.id));
    const ok = differsAt === null && text === row.snapshot;
    return { job_id: row.id, ok, first_difference_seq: ok ? null : (differsAt ?? row.seq) };
  });
  const goingOn = live.filter((row) => row.parked === null);
  const resumed = goingOn.map((row) => row.id);
  const ending = endingMachines(parts, new Set(goingOn.filter((r) => r.state === "terminating").map((r) => r.id)));
  const swept = await sweep(parts, options);
  return { dry_run: options.dryRun, replayed, resumed, ending, ...swept, foreign: await foreignMachines(parts) };
}

function endingMachines({ ledger }: ReconcileParts, jobs: ReadonlySet<string>): ReconcileReport["ending"] {
  return ledger
    .owed()
    .flatMap(({ name, resource_id, provider, job_id, price_micro }) =>
      job_id !== null && jobs.has(job_id)
        ? [{ name, id: resource_id, provider, job_id, price_per_hour_usd: usdOrNull(price_micro) }]
        : [],
    );
}

/**
 * Only for the report: the sweep already reports a provider that does not answer. A machine whose name somebody changed in the provider's
 * console is ours by its id.
 */
async function foreignMachines({
  engine,
  ledger,
  providers,
  connected,
}: ReconcileParts): Promise<ReconcileReport["foreign"]> {
  const prefix = installationPrefix(engine.store.installationId);
  const lists = [...providers.values()]
    .filter((p) => connected(p.name))
    .map(async (provider) => {
      const machines = await provider.listForeign?.(prefix, AbortSignal.timeout(60_000)).catch(() => []);
      const owed = ledger.owed().filter((row) => row.provider === provider.name);
      const ours = new Set(owed.map((row) => row.resource_id));
      return (machines ?? [])
        .filter(({ id }) => !ours.has(id))
        .map(({ id, name }) => ({ provider: provider.name, id, name }));
    });
  return (await Promise.all(lists)).flat();
}

/** Finds and releases machines of ours that no live job owns. */
export async function sweep(parts: ReconcileParts, options: { dryRun: boolean }): Promise<Swept> {
  const report: Swept = { terminated: [], failed: [], unreachable_providers: [] };
  // Asks providers without a credential only if the ledger has open rows of theirs: then their refusal must
  // be reported.
  const owing = new Set(parts.ledger.owed().map((row) => row.provider));
  for (const provider of parts.providers.values()) {
    if (!parts.connected(provider.name) && !owing.has(provider.name)) continue;
    const prefix = installationPrefix(parts.engine.store.installationId);
    const listing = await ownedMachines(provider, prefix, AbortSignal.timeout(60_000)).catch(() => null);
    // A failed or incomplete listing does not prove that anything is absent: the report names the provider, its rows
    // stay open. Listed machines exist.
    if (listing === null || listing.missing !== null) report.unreachable_providers.push(provider.name);
    if (listing === null) continue;
    const owned = listing.machines;
    if (!options.dryRun) await learnAccounts(parts, provider, owned);
    for (const handle of owned)
      if (isOrphan(parts, handle) && !(await isStale(parts, provider, handle, options)))
        await end(parts, provider, handle, options, report);
    // Owed by an ended job: a late answer reopened it, or svc ended between the intent and the end of an order that was never sent.
    for (const row of parts.ledger.owed()) {
      if (row.provider !== provider.name || owned.some((m) => m.name === row.name) || ownerLives(parts, row)) continue;
      const { handle } = entryOf(row);
      if (handle !== null) await end(parts, provider, handle, options, report);
      else if (!options.dryRun) await lookForOrder(parts, provider, row, report);
    }
  }
  return report;
}

/** A machine that a changed key still lists shows that the key opens the account of all orders of the earlier key. */
async function learnAccounts({ ledger }: ReconcileParts, provider: Provider, owned: MachineHandle[]): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  for (const handle of owned) {
    const row = ledger.row(handle.name);
    if (row === undefined || row.state === "released" || row.resource_id !== handle.id) continue;
    await learnAccount(ledger, provider, row, handle, signal).catch(() => null);
  }
}

type Ordered = Pick<MachineRow, "job_id" | "placement" | "node" | "ordinal">;

/** Also false for an earlier order of the node: a late answer may have reopened it, but the job uses another machine by now. */
export function ownerLives({ engine, ledger }: ReconcileParts, order: Ordered): boolean {
  const job = order.job_id === null ? undefined : engine.store.job(order.job_id);
  if (job === undefined || job.state === "terminal") return false;
  if (job.parked !== null) return true;
  return job.state !== "waiting" && order.placement === engine.placement(job.id).n && !ledger.isSuperseded(order);
}

function isOrphan(parts: ReconcileParts, handle: MachineHandle): boolean {
  const row = parts.ledger.row(handle.name);
  if (!row) return true;
  return !isOwn(parts, row, handle) && (!ownerLives(parts, row) || isStray(row, handle));
}

/**
 * Whether it is the machine of a live job. It is recognised by its id: a provider whose machines have no names of their own, like this
 * computer, lists it under the name of the first order.
 */
const isOwn = (parts: ReconcileParts, { job_id, node }: MachineRow, handle: MachineHandle): boolean =>
  parts.ledger
    .open(job_id ?? "", node)
    .some((entry) => entry.handle?.id === handle.id && ownerLives(parts, { ...entry, job_id }));

/** A second machine under the name of a live job's order: the row says which one is the job's, or the order was closed. */
const isStray = (row: MachineRow, handle: MachineHandle): boolean =>
  row.state === "released" || (row.resource_id !== null && row.resource_id !== handle.id);

/**
 * Whether this machine has ended although the provider lists it: the list may be older than the proof of the end. The row stays closed.
 * svc repeats the release, because one of the two answers of the provider is wrong.
 */
async function isStale(
  { ledger }: ReconcileParts,
  provider: Provider,
  handle: MachineHandle,
  { dryRun }: { dryRun: boolean },
): Promise<boolean> {
  const row = ledger.row(handle.name);
  if (row?.state !== "released" || row.resource_id !== handle.id) return false;
  const signal = AbortSignal.timeout(60_000);
  try {
    if ((await provider.inspect(handle, signal)).phase !== "gone") return false;
    await assertSameAccount(provider, row, signal, handle);
    if (!dryRun) await provider.terminate(handle, signal);
    return true;
  } catch {
    return false;
  }
}

async function end(
  parts: ReconcileParts,
  provider: Provider,
  handle: MachineHandle,
  options: { dryRun: boolean },
  report: Swept,
): Promise<void> {
  const jobId = parts.ledger.row(handle.name)?.job_id ?? null;
  const name = { name: handle.name, id: handle.id, provider: provider.name, job_id: jobId };
  if (options.dryRun) {
    report.terminated.push(name);
    return;
  }
  try {
    const row = parts.ledger.row(handle.name);
    // It gets no row of its own: the job would take it for its own machine.
    if (row && ownerLives(parts, row) && isStray(row, handle)) {
      await provider.terminate(handle, AbortSignal.timeout(60_000));
      report.terminated.push(name);
      return;
    }
    await parts.ledger.adopt(handle, {
      kind: "orphan",
      message: "No live run owns this machine. svc is releasing it.",
    });
    if (await releasedBy(parts, provider, handle.name)) report.terminated.push(name);
    else
      report.failed.push({
        name: handle.name,
        provider: provider.name,
        error: new SvcError("still_listed", { provider: provider.name, machine: handle.name }).toJobError(),
      });
  } catch (e) {
    report.failed.push({ name: handle.name, provider: provider.name, error: asSvcError(e).toJobError() });
  }
}

/** One look at an order of which no machine is known; the next sweep looks again until it is proven that there is none. */
async function lookForOrder(parts: ReconcileParts, provider: Provider, row: MachineRow, report: Swept): Promise<void> {
  try {
    await release(orphanPorts(parts), provider, entryOf(row), AbortSignal.timeout(60_000));
  } catch (e) {
    report.failed.push({ name: row.name, provider: provider.name, error: asSvcError(e).toJobError() });
  }
}

const orphanPorts = ({ engine, ledger }: ReconcileParts): OrphanPorts => ({
  installationId: engine.store.installationId,
  now: () => engine.clock.now(),
  ledger,
});

async function releasedBy(parts: ReconcileParts, provider: Provider, machine: string): Promise<boolean> {
  const { engine, ledger } = parts;
  for (let look = 0; look < LOOKS_MAX; look++) {
    const row = ledger.row(machine);
    if (!row || row.state === "released") return true;
    if ((await release(orphanPorts(parts), provider, entryOf(row), AbortSignal.timeout(60_000))) === null) return true;
    await pause(engine.clock, LOOK_GAP_MS);
  }
  return false;
}
