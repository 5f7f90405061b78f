// The contract of a provider. Vendor words and vendor quirks stay inside its folder.
//
// P1. `create` may lose its answer: then it throws, and the machine may exist anyway, now or up to `horizonMs` later.
//     It throws one of NOTHING_MADE only if the provider said explicitly that it made nothing. If it refused and made a
//     machine anyway, the error carries that one (`inVain`): it is ended, and never used for the run.
// P2. A listing may lag behind by `listingLagMs`. A listing that fails, or that may be incomplete, throws; it never
//     proves that a machine does not exist. The machines that it did show travel with the error (`inPart`).
// P3. `terminate` and `inspect` are idempotent. Only `inspect` saying "gone" ends the bill: an answer that could also
//     mean a bad key, an outage or a listing that lags is not "gone".
// P4. Every host, port, user and id that a provider answers with is checked against a strict pattern before it is used or kept;
//     every price is a finite number of 0 or more, or the offer does not exist.
// P5. No secret is put into a place that the provider shows: names, labels, variables of the machine, start scripts.

import type { SshEndpoint } from "../domain/endpoint.ts";
import type { OrderLimit } from "../domain/guard-script.ts";
import type { ErrorCode } from "../errors/index.ts";
import type { ProviderInfo } from "../schemas/job.ts";
import type { ProviderName, RunSpec } from "../schemas/spec.ts";
import type { MachineAccess } from "./host.ts";

export interface Offer {
  /** The provider's own name of the offered machine. */
  id: string;
  /** Integer micro-dollars per hour for the whole machine; null if the provider reports no price. */
  priceMicro: number | null;
  /**
   * Micro-dollars per GB of traffic, in and out together, if the provider reports it. It decides between offers of
   * nearly equal price.
   */
  trafficMicro?: number;
  /** The provider's description, for a person: `gpu`, `memory`, `place`. Never a secret. */
  facts?: Record<string, string>;
  /** True if the provider may take the machine back. Only offered when `spec.spot` is `prefer` or `only`. */
  spot?: true;
  /** The physical machine, by the provider's machine or host id, so that bad hosts can be avoided. */
  host?: string;
  /** Why it is tried last: its host was bad lately. */
  avoided?: string;
  /** How old the provider's answer was when it was used again, in milliseconds. */
  agoMs?: number;
  /** Further data for `create` of the same provider, in addition to the id. */
  extra?: Record<string, string>;
}

/** All that a restart knows about a machine: plain JSON, stored in the ledger. */
export interface MachineHandle {
  v: 1;
  provider: ProviderName;
  id: string;
  name: string;
  address: string | null;
  priceMicro: number | null;
  /**
   * `priceMicro` is the offer's, because the machine's own could not be read: it counts for the cost, and not against a
   * cap.
   */
  priceOffered?: true;
  /**
   * The lower price until the machine runs, if there is one: micro-dollars per hour. It counts for the time up to the
   * last poll that was `cheaper`, and never against a cap.
   */
  billedMicro?: number;
  /** Endpoints, best first. */
  ssh?: SshEndpoint[];
  /**
   * Data for finding or reaching it again: a zone, a home directory. Never a secret. `machine_id` is the physical
   * machine, as `host` of an offer: the record of bad hosts reads it.
   */
  extra?: Record<string, string>;
}

export interface Order {
  /** Fixed before the call and never used for a second order. Lower-case letters, digits and `-`; at most 63 characters. */
  name: string;
  jobId: string;
  node: number;
  spec: RunSpec;
  /** The budget's deadlines for the machine's guard; null or absent for none. */
  limit?: OrderLimit | null;
}

export type MachineStatus =
  /** `priceMicro` if its full price is, or may be, already billed; null if that price cannot be read. */
  | {
      phase: "starting";
      why: string;
      priceMicro?: number | null;
      /** It has not run yet: the provider has billed only the handle's `billedMicro` so far. */
      cheaper?: true;
    }
  | {
      phase: "ready";
      address: string | null;
      /** Endpoints, best first; absent for a machine in place. They may change between two polls. */
      ssh?: SshEndpoint[];
      /** The address at which the job's other nodes reach it. */
      privateAddress?: string | null;
      /** The current price, in integer micro-dollars per hour; null if the provider reports none. */
      priceMicro?: number | null;
    }
  /** It exists, may cost money, and cannot serve this run (any more): stopped, outbid, failed to boot. */
  | {
      phase: "broken";
      why: string;
      priceMicro?: number | null;
      /** It never came up, and its host is at fault: another machine of the same order may work. */
      elsewhere?: true;
      /** Its image cannot start on any host of this provider. */
      image?: true;
      /** The provider took the machine back; `why` quotes its reason. A stopped spot machine is never resumed. */
      preempted?: true;
    }
  /** Proven not to exist. `why` if the provider reports a reason: preempted, deleted by hand, its time limit. */
  | { phase: "gone"; why?: string; preempted?: true };

/** Marks a machine that broke before the first login (only then does its handle know a home directory): another one may work. */
export const neverReached = ({ extra }: MachineHandle): { elsewhere?: true } =>
  extra?.["home"] === undefined ? { elsewhere: true } : {};

/** The order of preference among machines with one name: running, then starting, then stopped. */
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
/** Attaches to an error of `create` the machine that was made anyway. */
export function inVain<E extends Error>(error: E, machine: MachineHandle): E {
  spoilt.set(error, machine);
  return error;
}
export const madeInVain = (error: unknown): MachineHandle | null =>
  typeof error === "object" && error !== null ? (spoilt.get(error) ?? null) : null;

const passedOver = new WeakMap<readonly Offer[], readonly string[]>();
/** Attaches to an offer list the reasons why other machines are not in it, as text: none in stock, an invalid price. */
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
/** Attaches to an error of `listOwned` the machines that the incomplete listing showed: those exist. */
export function inPart<E extends Error>(error: E, machines: MachineHandle[], gap: PartialListing["gap"]): E {
  parts.set(error, { machines, gap });
  return error;
}
export const shownInPart = (error: unknown): PartialListing | null =>
  typeof error === "object" && error !== null ? (parts.get(error) ?? null) : null;

/** Errors about svc's own configuration: the provider cannot be called. They say nothing about any machine. */
export const CANNOT_ASK: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "credential_missing",
  "credential_refused",
  "account_unproven",
  "provider_unavailable",
]);

/** The provider's bounds for lost and late answers, after which a machine may be called absent. */
export interface Certainty {
  /** A request that was sent may still take effect for this long. */
  horizonMs: number;
  /** An existing machine may be missing from a listing for this long. */
  listingLagMs: number;
  /** Number of consecutive empty listings, after all that, that count as proof. */
  emptyLooks: number;
  /** Time between two such listings. */
  lookGapMs: number;
}

/** A machine on the account without this installation's mark. Never touched. */
export interface ForeignMachine {
  id: string;
  name: string | null;
}

export interface Account {
  /** The credential's account, by the provider's name. */
  name: string;
  /** The credential's permissions, as text, if they are more or less than reading the account. */
  may?: string[];
  /** Dollars that can be spent; null if the provider does not report it. */
  balanceUsd: number | null;
  /** Obstacles to renting a machine, as text; empty if there are none. */
  warnings: string[];
}

/** The address at which a machine can read that it is about to be taken back. Plain http on the machine's own network, without a secret. */
export interface PreemptionNotice {
  url: string;
  headers: Readonly<Record<string, string>>;
  /** The answer that announces the end; any other means that the machine stays. */
  says: string;
  /** From the announcement to the end, at the most. */
  seconds: number;
}

/**
 * `look`: nothing is ordered with these offers, so the request needs no turn of its own among the orders. `glance`: the same, for a plan of
 * several candidates; a provider that would have to wait before it knows them throws `offers_unknown`, and continues to ask.
 */
export type OffersUse = "look" | "glance";

export interface Provider {
  readonly name: ProviderName;
  readonly info: Omit<ProviderInfo, "connected" | "source" | "missing">;
  readonly certainty: Certainty;
  /**
   * Throws if the provider can never serve this spec, naming the field. Sends no request. The caller has already refused a spec that
   * contradicts its `capabilities`.
   */
  check?(spec: RunSpec): void;
  /** Cheapest first. An empty list is an answer, not an error. */
  listOffers(spec: RunSpec, signal: AbortSignal, use?: OffersUse): Promise<Offer[]>;
  /** Returns once the provider knows the machine. A kill does not abort it: its answer is needed even then. */
  create(offer: Offer, order: Order): Promise<MachineHandle>;
  inspect(handle: MachineHandle, signal: AbortSignal): Promise<MachineStatus>;
  /**
   * svc's own connection to the machine, which had worked, has just failed. Together with polls that miss a young machine it
   * counts as evidence; absent where no answer lags.
   */
  unreachable?(handle: MachineHandle): void;
  terminate(handle: MachineHandle, signal: AbortSignal): Promise<void>;
  /**
   * Machines whose name begins with `prefix`, and no others; of several with one name, the most useful first
   * (`usefulness`).
   */
  listOwned(prefix: string, signal: AbortSignal): Promise<MachineHandle[]>;
  /** Machines on the account whose name does not begin with `prefix`; absent if they cannot be listed. */
  listForeign?(prefix: string, signal: AbortSignal): Promise<ForeignMachine[]>;
  /**
   * The account that the credential opens now (or, with a handle, the account on which this machine is looked up): its name, the same for
   * every key of one account; `key:` and the key's fingerprint, if the provider does not tell its name now; or both, with a blank between
   * them. Null if it makes no difference.
   */
  accountId?(signal: AbortSignal, handle?: MachineHandle): Promise<string | null>;
  /**
   * Verifies the credential with the provider. Throws `credential_missing`, `credential_refused`,
   * `provider_unreachable`.
   */
  account?(signal: AbortSignal): Promise<Account>;
  /** Called after a refused login: attaches our key again, if keys are attached to a machine. */
  attachKey?(handle: MachineHandle, signal: AbortSignal): Promise<void>;
  /**
   * A POSIX shell text that, run as root on the machine, asks the provider to end it with a key that opens nothing
   * else. It is run again until the machine is gone. Null if there is no such way.
   */
  selfEnd(name: string): string | null;
  /** Absent or null if no announcement reaches the machine before its provider takes it back. */
  preemptionNotice?(handle: MachineHandle): PreemptionNotice | null;
  /** Access to one machine. Costs nothing: connections are made when they are needed. */
  access(handle: MachineHandle): MachineAccess;
}
