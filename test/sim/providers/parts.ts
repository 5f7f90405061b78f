// The parts of every simulated provider: machines that boot for real, a ledger of their costs, and faults on request. A
// simulator is the other side: it imports nothing of the product, so that both cannot share one mistake.

import { userInfo } from "node:os";

export interface BootRequest {
  /** A name that is unique in its fleet; letters, digits and `-`. */
  name: string;
  authorizedKeys: readonly string[];
  /** The login user: `root`, or a user with sudo without a password. */
  user: string;
  /** Environment of the machine's first process, from which a start script inherits. SSH sessions do not see it. */
  env: Readonly<Record<string, string>>;
  /** POSIX shell text, run as root when the machine starts. */
  startScript: string | null;
  /** Time from the call until sshd answers. */
  bootMs: number;
  gpus: number;
  gpuName: string;
  diskMb: number;
  /** Port of the simulator's own API on 127.0.0.1; the machine reaches it under the same address. */
  apiPort: number | null;
}

export interface SimMachine {
  readonly name: string;
  /** The address of sshd, from this computer. */
  readonly address: string;
  readonly port: number;
  /** The address at which the fleet's other machines reach it. */
  readonly privateAddress: string;
  /** `ssh-ed25519 AAAA…` */
  readonly hostKey: string;
  /** Resolves when it has ended, powered off from inside or destroyed; absent if that is unknown. */
  readonly ended?: Promise<void>;
  /** Ends the machine at once with everything in it; its address no longer answers. */
  destroy(): Promise<void>;
  /** Restarts the container: processes end, files stay or (`wipe`) go, the start script runs again. */
  restart(options: { wipe: boolean }): Promise<void>;
  cut(): Promise<void>;
  heal(): Promise<void>;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Kilobits per second in both directions. */
  rate(kbit: number): Promise<void>;
  fillDisk(): Promise<void>;
  changeHostKey(): Promise<void>;
  /** While true, no key is accepted. */
  refuseKeys(refuse: boolean): Promise<void>;
  addKey(line: string): Promise<void>;
}

export interface Fleet {
  /**
   * `namespaces`: each machine has its own network, processes and disk; `plain`: each is an sshd on this computer, if
   * namespaces are not allowed.
   */
  readonly kind: "namespaces" | "plain";
  boot(request: BootRequest): Promise<SimMachine>;
  machines(): readonly SimMachine[];
  /** Destroys every machine that it booted. */
  close(): Promise<void>;
}

/** One machine in a simulator's records, from its creation to its end. */
export interface LedgerLine {
  id: string;
  /** The name or label that the customer gave. */
  name: string;
  usdPerHour: number;
  /** Later prices, in order; 0 while it is halted, when the provider bills only its disk. */
  prices: readonly { sinceMs: number; usdPerHour: number }[];
  madeAtMs: number;
  endedAtMs: number | null;
  /** `terminated` by a call, `self` by the machine's own key, `preempted`, `vanished`, `limit` by its own time limit. */
  endedBy: "terminated" | "self" | "preempted" | "vanished" | "limit" | null;
  /** A foreign machine on the account: it must never be touched. */
  foreign: boolean;
}

export interface SimLedger {
  made(line: Omit<LedgerLine, "endedAtMs" | "endedBy" | "prices">): void;
  /** Changes what a machine costs from now on. */
  priced(id: string, usdPerHour: number, atMs: number): void;
  ended(id: string, by: NonNullable<LedgerLine["endedBy"]>, atMs: number): void;
  all(): readonly LedgerLine[];
  /** Machines that exist, without foreign ones. */
  alive(): readonly LedgerLine[];
  /** The largest number of machines with one name prefix (up to its last `-`) that were alive at the same time. */
  mostAtOnce(namePrefix: string): number;
  /** Calls with an effect, in order: `create NAME`, `terminate ID`, … */
  readonly calls: string[];
}

export const FAULTS = [
  "lost_after_create", // the machine is made, the answer never comes
  "error_after_create", // the machine is made, the answer is a 500
  "error_before_create", // a 500, and nothing is made
  "slow_create", // the answer comes after the client's timeout; the machine is made late
  "listing_lag", // new machines are missing from listings and gets for a while
  "no_capacity",
  "sold_out", // no offer for some time
  "offer_taken", // the first offers are taken by the time they are rented
  "delete_ignored", // accepted twice without effect
  "delete_errors", // errors for some time
  "delete_lost", // carried out, but the answer never comes
  "hang", // no answer to any call for some time
  "api_retired", // the provider's first API answers 410 from now on; the second one is served
  "api_retiring", // the first API announces its end in every answer
  "api_limited", // the first API answers 429 from now on
  "rate_limited", // 429, in each of the provider's dialects
  "html_200", // an HTML page with status 200
  "cut_json", // the body ends in the middle
  "json_bomb", // a small compressed body that inflates to hundreds of megabytes
  "price_nan",
  "price_null",
  "price_text",
  "price_moves", // between a search and an order: the machine costs more, a bid is too low
  "price_higher", // the machine costs more than its offer said
  "price_rises", // while it runs
  "price_rises_early", // from now on, also before it is ready
  "hostile_strings", // hosts, users and ids that look like options, paths or shell text
  "port_swap", // the endpoint changes during the run
  "boot_never", // it never becomes ready
  "boot_fails", // it boots broken, and its status says so
  "container_refused", // its host cannot start the image; only a message of the provider says so
  "image_missing", // the image does not exist; only a message of the provider says so
  "bad_hosts", // the first rented hosts: nvidia-smi fails there, for everyone who rents them
  "busy_hosts", // the first rented hosts: another process uses their GPUs' memory, which only the gate finds
  "dead_hosts", // the first rented hosts: none of their machines ever boots
  "gpu_lost", // nvidia-smi fails
  "gpu_other", // another model than the ordered one
  "key_refused_first", // sshd refuses the key for some seconds
  "key_refused", // and for ever
  "host_key_changes",
  "vanishes",
  "preempted",
  "spot_taken", // every spot machine is taken back in time
  "freezes", // for a while
  "black_hole", // the network is cut for some time
  "slow_link",
  "disk_full",
] as const;
export type FaultName = (typeof FAULTS)[number];

/** The active faults. Numbers are the fault's own quantity: how often, how long (ms), how much. */
export interface Faults {
  set(name: FaultName, measure?: number): void;
  clear(name?: FaultName): void;
  /** The number of an active fault, else null. */
  get(name: FaultName): number | null;
  /** True as often as the fault's number says (default 1), then never again. */
  take(name: FaultName): boolean;
  on(listener: (name: FaultName, measure: number | null) => void): void;
}

export interface SimClock {
  now(): number;
  /** Resolves after so many milliseconds of this clock. */
  wait(ms: number): Promise<void>;
}

export interface SimParts {
  fleet: Fleet;
  ledger: SimLedger;
  faults: Faults;
  clock: SimClock;
  /** The account's valid key. */
  apiKey: string;
  /** The seed of all random choices; 1 by default. */
  seed?: number;
}

/**
 * The setting for the login user, if it is not the vendor's usual one: machines that share this computer have its
 * users.
 */
export const usersOf = (fleet: Pick<Fleet, "kind">): { ssh_user?: string } =>
  fleet.kind === "plain" ? { ssh_user: userInfo().username } : {};

/** A provider's API on loopback. */
export interface ProviderSim {
  /** Maximum of machines on one page of a list; absent for a provider without a list. */
  pageSize?: number;
  readonly name: string;
  /** Base address, once the server listens. */
  readonly url: string;
  /** A user's settings for it: variables of the environment, and blocks of credentials.json. */
  settings(): { env: Record<string, string>; credentials: Record<string, unknown> };
  close(): Promise<void>;
}
