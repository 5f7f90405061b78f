// Closes the order of a machine whose end the user confirms: `svc reconcile --gone NAME`. For a machine that ended before its key was
// exchanged, at a provider that names no accounts: no answer under the new key proves the end, and the old key may be revoked.
//
// Only for such an order, and never automatic. Refused while a run uses the machine, while the request of the order may still take
// effect, and while the provider shows the machine under the new key or does not answer. svc releases the machine once more before.
// The proof on the record says that the user confirmed it. A machine that appears later reopens the order, as after any proof.

import { SvcError } from "../errors/index.ts";
import type { Provider } from "../providers/provider.ts";
import type { MachineRow } from "../store/tables.ts";
import { installationPrefix } from "../domain/machine-names.ts";
import { verdictOn } from "../steps/rental/account-check.ts";
import { ownedMachines } from "../steps/rental/list-owned.ts";
import { entryOf } from "./ledger.ts";
import { ownerLives, type ReconcileParts } from "./reconcile.ts";

const ASK_MS = 60_000;

/** Throws `machine_not_found`, `machine_not_closable`, and errors of the provider; then nothing was changed. */
export async function confirmGone(parts: ReconcileParts, name: string, { dryRun }: { dryRun: boolean }): Promise<void> {
  const { engine, ledger } = parts;
  const row = ledger.row(name);
  if (!row) throw new SvcError("machine_not_found", { machine: name });
  if (row.state === "released") return;
  const refuse = (why: string): never => {
    throw new SvcError("machine_not_closable", { machine: name, why });
  };
  const job = row.job_id === null ? undefined : engine.store.job(row.job_id);
  if (ownerLives(parts, row) && job?.state !== "terminating")
    refuse(`the run ${row.job_id} uses it; \`svc kill ${row.job_id}\` ends both`);
  const provider = parts.providers.get(row.provider);
  if (!provider) return refuse(`svc does not know the provider ${row.provider}`);
  const signal = AbortSignal.timeout(ASK_MS);
  const key = await otherKey(provider, row, signal, refuse);
  const askedAt = engine.clock.now();
  const { handle } = entryOf(row);
  if (handle === null && askedAt < row.horizon_at + provider.certainty.listingLagMs)
    refuse(
      "the answer to its order was lost a moment ago, and the request may still take effect; try again in some minutes",
    );
  if (handle !== null && !dryRun) await provider.terminate(handle, signal);
  const { machines, missing } = await ownedMachines(provider, installationPrefix(engine.store.installationId), signal);
  if (machines.some((machine) => machine.name === name || machine.id === row.resource_id))
    refuse(`${provider.name} still lists it`);
  if (missing !== null) throw missing;
  if (handle !== null && (await provider.inspect(handle, signal)).phase !== "gone")
    refuse(`${provider.name} does not say that it is gone`);
  if ((await otherKey(provider, row, signal, refuse)) !== key) refuse("the key was changed meanwhile; try again");
  if (dryRun) return;
  const proof = `confirmed by the user; ${provider.name} does not show it under another key (${key}) than the one of its order (${row.account})`;
  // Without a list of the order's own account a machine of a lost order may have existed until now: its cost stays possible.
  const doubtAt = handle === null ? askedAt : null;
  if (!(await ledger.released(name, proof, { of: row.resource_id, doubtAt })))
    refuse("the answer to its order has just named another machine; try again");
}

/** The account that the key opens now, if it cannot be compared with the one of the order. */
async function otherKey(
  provider: Provider,
  { account }: MachineRow,
  signal: AbortSignal,
  refuse: (why: string) => never,
): Promise<string> {
  const now = (await provider.accountId?.(signal)) ?? null;
  const verdict = account === null || now === null ? "unknown" : verdictOn(account, now);
  if (verdict === "another account")
    refuse("the key opens another account than the one that rented it; set the key of that account");
  if (now === null || verdict !== "another key")
    return refuse(
      `only the end of a machine whose provider's key was replaced can be confirmed by hand, and with the present key ${provider.name} answers for it itself`,
    );
  return now;
}
