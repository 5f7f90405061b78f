// Whose account is asked. That a machine is not there, on another account than the one that rented it, says nothing: no row closes
// by it, and no run is given up for it.

import { SvcError } from "../../errors/index.ts";
import type { MachineHandle, Provider } from "../../providers/provider.ts";
import type { Ledger, LedgerEntry } from "../ports.ts";

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
 * Where no account was known, or only the fingerprint of a key that is another by now: if this key lists the machine, it opens the account
 * that the machine is on, and its word counts from now on. Gives the account that counts. Throws nothing of the provider's: that none can
 * be learned just now keeps nobody from ending the machine.
 */
export async function learnAccount(
  ledger: Pick<Ledger, "account">,
  provider: Provider,
  { name, account }: Pick<LedgerEntry, "name" | "account">,
  handle: MachineHandle,
  signal: AbortSignal,
): Promise<string | null> {
  if (account !== null && !isPrint(account)) return account;
  let now: string | null;
  try {
    now = (await provider.accountId?.(signal, handle)) ?? null;
    if (now === null || now === account || (account !== null && !isPrint(now))) return account;
    // A look would not do: of one that is young it says "starting" also where it does not find it.
    const listed = await provider.listOwned(name, signal);
    if (!listed.some((machine) => machine.name === name && machine.id === handle.id)) return account;
  } catch {
    signal.throwIfAborted();
    return account;
  }
  await ledger.account(name, now);
  return now;
}

/**
 * Asks whose account it is while the machine is being ended, and waits for nothing: the provider remembers it for as long as the key is the
 * same. That it cannot be learned right after the machine was seen to be gone would undo that proof.
 */
export async function askAhead(provider: Provider, signal: AbortSignal, handle: MachineHandle): Promise<void> {
  try {
    await provider.accountId?.(signal, handle);
  } catch {
    // It is asked again where it is needed.
  }
}

const isPrint = (account: string): boolean => account.startsWith("key:");

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
  if (now === null || now === account || isPrint(now) !== isPrint(account)) return;
  throw new SvcError("credential_refused", {
    provider: provider.name,
    why: `the key opens another account (${now}) than the one that rented ${name} (${account}), so that it does not show means nothing; set the key of that account`,
  });
}
