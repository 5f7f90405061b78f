// Checks which account the key opens. A machine's absence from another account than the one that rented it proves
// nothing: no row is closed by it, and no run is given up for it.

import { SvcError } from "../../errors/index.ts";
import type { MachineHandle, Provider } from "../../providers/provider.ts";
import type { Ledger, LedgerEntry } from "../ports.ts";

/** The account for an order; null if the provider cannot tell at the moment. Throws if the key is refused. */
export async function accountFor(provider: Provider, signal: AbortSignal): Promise<string | null> {
  try {
    return (await provider.accountId?.(signal)) ?? null;
  } catch (e) {
    if (e instanceof SvcError && e.retry !== "never") return null;
    throw e;
  }
}

/**
 * For an order without a known account, or with only the fingerprint of a key that has changed since: if this key lists
 * the machine, it opens the machine's account, and its answers count from now on. Returns the account that counts.
 * Throws no error of the provider: an unknown account must not prevent the end of the machine.
 */
export async function learnAccount(
  ledger: Pick<Ledger, "account">,
  provider: Provider,
  { name, account }: Pick<LedgerEntry, "name" | "account">,
  handle: MachineHandle,
  signal: AbortSignal,
): Promise<string | null> {
  if (account !== null && partsOf(account).print === null) return account;
  let now: string | null;
  try {
    now = (await provider.accountId?.(signal, handle)) ?? null;
    if (now === null) return account;
    const hasOther = account !== null && compared(account, now) === "other" && !haveNames(account, now);
    if (account !== null && !hasOther) return account;
    // `inspect` would not do: for a young machine it says "starting" even if it does not find it.
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
 * Asks for the account while the machine is being ended, without waiting: the provider caches it while the key is the
 * same. Failing to learn it right after the machine was seen to be gone would undo that proof.
 */
export async function askAhead(provider: Provider, signal: AbortSignal, handle: MachineHandle): Promise<void> {
  try {
    await provider.accountId?.(signal, handle);
  } catch {
    // It is requested again when it is needed.
  }
}

/** An account as `accountId` tells it. */
function partsOf(account: string): { name: string | null; print: string | null } {
  const [, name = null, print = null] = /^(?:(.+) )?(key:[0-9a-f]+)$/.exec(account) ?? [null, account];
  return { name, print };
}

const haveNames = (a: string, b: string): boolean => partsOf(a).name !== null && partsOf(b).name !== null;

/** By their names; where one has none, by the fingerprints of the keys. */
function compared(a: string, b: string): "same" | "other" | "unknown" {
  const [one, two] = [partsOf(a), partsOf(b)];
  if (one.name !== null && two.name !== null) return one.name === two.name ? "same" : "other";
  if (one.print !== null && two.print !== null) return one.print === two.print ? "same" : "other";
  return "unknown";
}

const wordsFor = (account: string): string => partsOf(account).name ?? account;

/** Throws `credential_refused` if the key now opens another account than the one of the order. */
export async function assertSameAccount(
  provider: Provider,
  { name, account }: Pick<LedgerEntry, "name" | "account">,
  signal: AbortSignal,
  handle?: MachineHandle,
): Promise<void> {
  if (account === null) return;
  const now = (await provider.accountId?.(signal, handle)) ?? null;
  // An order of an older version has a name alone, which cannot be compared with a fingerprint.
  if (now === null || compared(account, now) !== "other") return;
  throw new SvcError("credential_refused", {
    provider: provider.name,
    why: `the key opens another account (${wordsFor(now)}) than the one that rented ${name} (${wordsFor(account)}), so the absence of the machine proves nothing; set the key of that account`,
  });
}
