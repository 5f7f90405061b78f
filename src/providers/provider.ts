// The contract of a provider. Vendor words and vendor quirks stay inside its folder.
//
// P1. `create` may lose its answer: then it throws, and the machine may exist all the same, now or up to `horizonMs` later.
//     It throws one of NOTHING_MADE only where the provider said in so many words that it made nothing. Where it refused and made
//     a machine all the same, the error carries that one (`inVain`): it is ended, and never taken for the run's.
// P2. A listing may lag behind by `listingLagMs`. A listing that fails, or that may be incomplete, throws; it never proves that a machine
//     does not exist. What it did show travels with the error (`inPart`).
// P3. `terminate` and `inspect` may be repeated. Only `inspect` saying "gone" ends the bill: an answer that could also mean a
//     bad key, an outage or a listing that lags is not "gone".
// P4. Every host, port, user and id that a provider answers with is checked against a strict pattern before it is used or kept;
//     every price is a finite number of 0 or more, or the offer does not exist.
// P5. No secret is put where the provider shows it: names, labels, variables of the machine, start scripts.

import type { SshEndpoint } from "../domain/endpoint.ts";
import type { ErrorCode } from "../errors/index.ts";
import type { ProviderInfo } from "../schemas/job.ts";
import type { ProviderName, RunSpec } from "../schemas/spec.ts";
import type { MachineAccess } from "./host.ts";

export interface Offer {
  /** The provider's own name for what would be rented. */
  id: string;
  /** Integer micro-dollars per hour for the whole machine; null where the provider reports no price. */
  priceMicro: number | null;
  /** Micro-dollars for a GB of traffic, in and out together, where the provider tells it. It decides between offers of nearly one price. */
  trafficMicro?: number;
  /** What the provider tells of it, for a person: `gpu`, `memory`, `place`. Never a secret. */
  facts?: Record<string, string>;
  /** True where the provider may take the machine back. Only offered when `spec.spot` is `prefer` or `only`. */
  spot?: true;
  /** Who else is on the same hardware, as the provider calls it: a machine or host id. Bad hosts are avoided by it. */
  host?: string;
  /** What `create` of the same provider needs to know of it, beside the id. */
  extra?: Record<string, string>;
}

/** All that a restart has of a machine: plain JSON, stored in the ledger. */
export interface MachineHandle {
  v: 1;
  provider: ProviderName;
  id: string;
  name: string;
  address: string | null;
  priceMicro: number | null;
  /** `priceMicro` is the offer's, for the machine's own could not be read: it counts for the cost, and not against a cap. */
  priceOffered?: true;
  /** What is billed until it runs, where that is less: micro-dollars an hour. It counts for the cost, and never against a cap. */
  billedMicro?: number;
  /** Ways in, best first. */
  ssh?: SshEndpoint[];
  /** What is needed to find or reach it again: a zone, a home directory. Never a secret. */
  extra?: Record<string, string>;
}

export interface Order {
  /** Fixed before the call and never used for a second order. Lower-case letters, digits and `-`; at most 63 characters. */
  name: string;
  jobId: string;
  node: number;
  spec: RunSpec;
}

export type MachineStatus =
  /** `priceMicro` where its whole price is billed already. */
  | { phase: "starting"; why: string; priceMicro?: number | null }
  | {
      phase: "ready";
      address: string | null;
      /** Ways in, best first; absent for a machine that is reached in place. They may change from one look to the next. */
      ssh?: SshEndpoint[];
      /** Where the other nodes of the job reach it. */
      privateAddress?: string | null;
      /** What is billed now, in integer micro-dollars per hour; null where the provider reports none. */
      priceMicro?: number | null;
    }
  /** It exists, may cost money, and will not serve this run (any more): stopped, outbid, failed to boot. */
  | {
      phase: "broken";
      why: string;
      priceMicro?: number | null;
      /** It never came up, and the fault is its host's: another machine of the same order may. */
      elsewhere?: true;
      /** The provider took the machine back; `why` says how it put it. A stopped spot machine is never resumed. */
      preempted?: true;
    }
  /** Proven not to exist. `why` where the provider tells: preempted, deleted by hand, its time limit. */
  | { phase: "gone"; why?: string; preempted?: true };

/** Of machines with one name, the first one is kept: one that runs, else one that may come up, else one that is stopped. */
export const usefulness = ({ phase }: MachineStatus): number => ["ready", "starting", "broken", "gone"].indexOf(phase);

/** Codes with which `create` and `listOffers` say that nothing was made: the next offer may be tried at once. */
export const NOTHING_MADE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "offer_taken",
  "no_offer",
  "no_funds",
  "no_quota",
  "credential_missing",
  "credential_refused",
  "provider_refused",
  "provider_unavailable",
]);

const spoilt = new WeakMap<object, MachineHandle>();
/** Marks an error of `create` with the machine that was made all the same. */
export function inVain<E extends Error>(error: E, machine: MachineHandle): E {
  spoilt.set(error, machine);
  return error;
}
export const madeInVain = (error: unknown): MachineHandle | null =>
  typeof error === "object" && error !== null ? (spoilt.get(error) ?? null) : null;

const passedOver = new WeakMap<readonly Offer[], readonly string[]>();
/** Marks what `listOffers` gives with why other machines are not among it, in words for people: none in stock, a price that is no number. */
export function withoutOthers(offers: Offer[], reasons: readonly string[]): Offer[] {
  passedOver.set(offers, reasons);
  return offers;
}
export const whyNotOthers = (offers: readonly Offer[]): readonly string[] => passedOver.get(offers) ?? [];

export interface PartialListing {
  machines: MachineHandle[];
  /** `named`: a part of the provider that it named, such as a zone, did not answer. `anywhere`: pages are missing. */
  gap: "named" | "anywhere";
}
const parts = new WeakMap<object, PartialListing>();
/** Marks an error of `listOwned` with the machines that the incomplete listing showed: those exist. */
export function inPart<E extends Error>(error: E, machines: MachineHandle[], gap: PartialListing["gap"]): E {
  parts.set(error, { machines, gap });
  return error;
}
export const shownInPart = (error: unknown): PartialListing | null =>
  typeof error === "object" && error !== null ? (parts.get(error) ?? null) : null;

/** Codes that say that the provider cannot be asked as things are set here: nothing of any machine. */
export const CANNOT_ASK: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "credential_missing",
  "credential_refused",
  "provider_unavailable",
]);

/** What must be believed about lost and late answers before a machine may be called absent. */
export interface Certainty {
  /** A request that was sent may still take effect for this long. */
  horizonMs: number;
  /** A machine that exists may be missing from a listing for this long. */
  listingLagMs: number;
  /** Empty listings in a row, after all that, that count as proof. */
  emptyLooks: number;
  /** Between two such listings. */
  lookGapMs: number;
}

/** A machine on the account that does not bear this installation's mark. Never touched. */
export interface ForeignMachine {
  id: string;
  name: string | null;
}

export interface Account {
  /** Whose account the credential opens, as the provider calls it. */
  name: string;
  /** What the credential may do, in words, where that is more or less than to read the account. */
  may?: string[];
  /** Dollars that can be spent; null where the provider does not tell. */
  balanceUsd: number | null;
  /** What stands in the way of renting a machine, in words; empty where nothing does. */
  warnings: string[];
}

export interface Provider {
  readonly name: ProviderName;
  readonly info: Omit<ProviderInfo, "connected" | "source" | "missing">;
  readonly certainty: Certainty;
  /** Throws where the provider can never serve this spec, naming the field. Asks nobody. */
  check?(spec: RunSpec): void;
  /** Cheapest first. An empty list is an answer, not an error. */
  listOffers(spec: RunSpec, signal: AbortSignal): Promise<Offer[]>;
  /** Returns once the provider knows the machine. Not aborted by a kill: its answer is wanted even then. */
  create(offer: Offer, order: Order): Promise<MachineHandle>;
  inspect(handle: MachineHandle, signal: AbortSignal): Promise<MachineStatus>;
  terminate(handle: MachineHandle, signal: AbortSignal): Promise<void>;
  /** Machines whose name begins with `prefix`, ours and nobody else's; of several with one name, the most useful first (`usefulness`). */
  listOwned(prefix: string, signal: AbortSignal): Promise<MachineHandle[]>;
  /** Machines on the account whose name does not begin with `prefix`; absent where it cannot be told. */
  listForeign?(prefix: string, signal: AbortSignal): Promise<ForeignMachine[]>;
  /**
   * Whose account the credential opens now (or, with a handle, the one that this machine is asked about on): the same for every key
   * of one account, or `key:` and a fingerprint where the provider does not tell. Null where it makes no difference.
   */
  accountId?(signal: AbortSignal, handle?: MachineHandle): Promise<string | null>;
  /** Asks the provider about the credential. Throws `credential_missing`, `credential_refused`, `provider_unreachable`. */
  account?(signal: AbortSignal): Promise<Account>;
  /** Called when a login was refused: where keys are attached to a machine, attaches ours again. */
  attachKey?(handle: MachineHandle, signal: AbortSignal): Promise<void>;
  /**
   * A POSIX shell text that, run as root on the machine, asks the provider to end it with a key that opens nothing else. It is
   * run again until the machine is gone. Null where there is no such way.
   */
  selfEnd(name: string): string | null;
  /** The way to one machine. Costs nothing: connections are made when they are needed. */
  access(handle: MachineHandle): MachineAccess;
}
