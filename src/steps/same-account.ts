// Whose account is asked. That a machine is not there, on another account than the one that rented it, says nothing: no row closes
// by it, and no run is given up for it.

import { SvcError } from "../errors/index.ts";
import type { MachineHandle, Provider } from "../providers/provider.ts";
import type { Ledger, LedgerEntry } from "./ports.ts";

/** The account that an order will be on; null where the provider does not tell just now. Throws where the key is refused. */
export async function accountFor(provider: Provider, signal: AbortSignal): Promise<string | null> {
  try {
    return (await provider.accountId?.(signal)) ?? null;
  } catch (e) {
    if (e instanceof SvcError && e.retry !== "never") return null;
    throw e;
  }
}

/**
 * Where only the key's fingerprint was known, and there is another key by now: if that shows the machine, it opens the same account,
 * and its word counts from now on. Gives the account that counts.
 */
export async function learnAccount(
  ledger: Pick<Ledger, "account">,
  provider: Provider,
  { name, account }: Pick<LedgerEntry, "name" | "account">,
  handle: MachineHandle,
  signal: AbortSignal,
): Promise<string | null> {
  if (!account?.startsWith("key:")) return account;
  const now = (await provider.accountId?.(signal, handle)) ?? null;
  if (now === null || now === account || !now.startsWith("key:")) return account;
  const { phase } = await provider.inspect(handle, signal);
  if (phase === "gone") return account;
  await ledger.account(name, now);
  return now;
}

/** Throws `credential_refused` where the key opens another account by now than the one that an order was made on. */
export async function assertSameAccount(
  provider: Provider,
  { name, account }: Pick<LedgerEntry, "name" | "account">,
  signal: AbortSignal,
  handle?: MachineHandle,
): Promise<void> {
  if (account === null) return;
  const now = (await provider.accountId?.(signal, handle)) ?? null;
  // What the provider calls an account, and a key's fingerprint, cannot be compared.
  if (now === null || now === account || now.startsWith("key:") !== account.startsWith("key:")) return;
  throw new SvcError("credential_refused", {
    provider: provider.name,
    why: `the key opens another account (${now}) than the one that rented ${name} (${account}), so that it does not show means nothing; set the key of that account`,
  });
}
