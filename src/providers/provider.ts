// The contract of a provider. Vendor words and vendor quirks stay inside its folder.
//
// P1. `create` may lose its answer: then it throws, and the machine may exist all the same, now or up to `horizonMs` later.
// P2. A listing may lag behind by `listingLagMs`. A listing that fails throws; it is never an empty one.
// P3. `terminate` and `inspect` may be repeated. Only `inspect` saying "gone" ends the bill.

import type { ProviderInfo } from "../schemas/job.ts";
import type { ProviderName, RunSpec } from "../schemas/spec.ts";
import type { RunHost } from "./host.ts";

export interface Offer {
  /** The provider's own name for what would be rented. */
  id: string;
  /** Integer micro-dollars per hour; null where the provider reports no price. */
  priceMicro: number | null;
}

/** All that a restart has of a machine: plain JSON, stored in the ledger. */
export interface MachineHandle {
  v: 1;
  provider: ProviderName;
  id: string;
  name: string;
  address: string | null;
  priceMicro: number | null;
}

export interface Order {
  /** Fixed before the call and never used for a second order. */
  name: string;
  jobId: string;
  node: number;
  spec: RunSpec;
}

export type MachineStatus =
  { phase: "starting"; why: string } | { phase: "ready"; address: string | null } | { phase: "gone" };

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

export interface Provider {
  readonly name: ProviderName;
  readonly info: Omit<ProviderInfo, "connected" | "source" | "missing">;
  readonly certainty: Certainty;
  /** Cheapest first. An empty list is an answer, not an error. */
  listOffers(spec: RunSpec, signal: AbortSignal): Promise<Offer[]>;
  /** Returns once the provider knows the machine. Not aborted by a kill: its answer is wanted even then. */
  create(offer: Offer, order: Order): Promise<MachineHandle>;
  inspect(handle: MachineHandle, signal: AbortSignal): Promise<MachineStatus>;
  terminate(handle: MachineHandle, signal: AbortSignal): Promise<void>;
  /** Machines whose name begins with `prefix`, ours and nobody else's. */
  listOwned(prefix: string, signal: AbortSignal): Promise<MachineHandle[]>;
  /** The way to one run on the machine: `run` for the script, `install` for what comes before it. */
  host(handle: MachineHandle, purpose: "run" | "install"): RunHost;
}
