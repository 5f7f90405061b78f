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
    if (now === null || (account !== null && verdictOn(account, now) !== "another key")) return account;
    // `inspect` would not do: for a young machine it says "starting" even if it does not find it.
    const listed = await provider.listOwned(name, signal);
    if (!listed.some((machine) => machine.name === name && machine.id === handle.id)) return account;
    // The user may have changed the key between the two answers.
    if ((await provider.accountId?.(signal, handle)) !== now) return account;
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

/**
 * How the account that the key opens now relates to the one of an order. Names decide; where one of the two has none, the keys:
 * another key may open the same account. An order of an older version has a name alone, which no key can be compared with.
 */
type Verdict = "same" | "another account" | "another key" | "unknown";

export function verdictOn(account: string, now: string): Verdict {
  const [one, two] = [partsOf(account), partsOf(now)];
  if (one.name !== null && two.name !== null) return one.name === two.name ? "same" : "another account";
  if (one.print !== null && two.print !== null) return one.print === two.print ? "same" : "another key";
  return "unknown";
}

const wordsFor = (account: string): string => partsOf(account).name ?? account;

/** Throws `account_unproven` if the key now opens, or may open, another account than the one of the order. */
export async function assertSameAccount(
  provider: Provider,
  { name, account }: Pick<LedgerEntry, "name" | "account">,
  signal: AbortSignal,
  handle?: MachineHandle,
): Promise<void> {
  if (account === null) return;
  const now = (await provider.accountId?.(signal, handle)) ?? null;
  const verdict = now === null ? "unknown" : verdictOn(account, now);
  if (now === null || verdict === "same" || verdict === "unknown") return;
  throw new SvcError("account_unproven", {
    provider: provider.name,
    machine: name,
    ordered: wordsFor(account),
    now: wordsFor(now),
    isKeyOnly: verdict === "another key",
  });
}
