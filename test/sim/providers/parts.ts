// The parts of every simulated provider: machines that boot for real, a ledger of their costs, and faults on request. A
// simulator is the other side: it imports nothing of the product, so that both cannot share one mistake.

import { userInfo } from "node:os";

export interface BootRequest {
  /** Unique in its fleet; letters, digits and `-`. */
  name: string;
  authorizedKeys: readonly string[];
  /** The login user: `root`, or a user with sudo without a password. */
  user: string;
  /** Environment of the machine's first process, from which a start script inherits. SSH sessions do not see it. */
  env: Readonly<Record<string, string>>;
  /** POSIX shell text, run as root when the machine starts. */
  startScript: string | null;
  /** From the call until sshd answers. */
  bootMs: number;
  gpus: number;
  gpuName: string;
  diskMb: number;
  /** Port on 127.0.0.1 of the simulator's own API; the machine reaches it under the same address. */
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
  /** Ends at once with everything in it; its address no longer answers. */
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
  /** `namespaces`: own network, processes and disk each; `plain`: an sshd each on this computer, for where that is not allowed. */
  readonly kind: "namespaces" | "plain";
  boot(request: BootRequest): Promise<SimMachine>;
  machines(): readonly SimMachine[];
  /** Destroys everything that it booted. */
  close(): Promise<void>;
}

/** One machine in a simulator's books, from its making to its end. */
export interface LedgerLine {
  id: string;
  /** The name or label that the customer gave. */
  name: string;
  usdPerHour: number;
  madeAtMs: number;
  endedAtMs: number | null;
  /** `terminated` by a call, `self` by the machine's own key, `preempted`, `vanished`, `limit` by its own time limit. */
  endedBy: "terminated" | "self" | "preempted" | "vanished" | "limit" | null;
  /** A foreign machine on the account: it must never be touched. */
  foreign: boolean;
}

export interface SimLedger {
  made(line: Omit<LedgerLine, "endedAtMs" | "endedBy">): void;
  ended(id: string, by: NonNullable<LedgerLine["endedBy"]>, atMs: number): void;
  all(): readonly LedgerLine[];
  /** Machines that still cost money; without foreign ones. */
  alive(): readonly LedgerLine[];
  /** The most machines of one name prefix (up to its last `-`) that were alive at the same time. */
  mostAtOnce(namePrefix: string): number;
  /** Calls that changed something, in order: `create NAME`, `terminate ID`, … */
  readonly calls: string[];
}

export const FAULTS = [
  "lost_after_create", // the machine is made, the answer never comes
  "error_after_create", // the machine is made, the answer is a 500
  "error_before_create", // a 500, and nothing is made
  "slow_create", // the answer comes after the client has given up; the machine is made late
  "listing_lag", // new machines are missing from listings and gets for a while
  "no_capacity",
  "sold_out", // nothing is to be had for a while
  "offer_taken", // the first offers are gone when they are rented
  "delete_ignored", // accepted, and the machine stays, twice
  "delete_errors", // errors for a while
  "delete_lost", // done, but the answer never comes
  "hang", // no answer to anything for a while
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
  "hostile_strings", // hosts, users and ids that are options, paths or shell text
  "port_swap", // the way in changes while the run runs
  "boot_never", // it never becomes ready
  "boot_fails", // it comes up broken, and says so
  "container_refused", // its host cannot start the image, which only words of the provider tell
  "bad_hosts", // the first hosts that are rented: nvidia-smi fails there, for whoever rents them again
  "dead_hosts", // the first hosts that are rented: no machine of theirs ever comes up
  "gpu_lost", // nvidia-smi fails
  "gpu_other", // another model than was ordered
  "key_refused_first", // sshd refuses the key for some seconds
  "key_refused", // and for ever
  "host_key_changes",
  "vanishes",
  "preempted",
  "spot_taken", // every spot machine is taken back in time
  "freezes", // for a while
  "black_hole", // the network is cut for a while
  "slow_link",
  "disk_full",
] as const;
export type FaultName = (typeof FAULTS)[number];

/** The active faults. Numbers are the fault's own measure: how often, how long (ms), how much. */
export interface Faults {
  set(name: FaultName, measure?: number): void;
  clear(name?: FaultName): void;
  /** The measure while the fault is on, else null. */
  get(name: FaultName): number | null;
  /** True as often as its measure says (1 unless given), then never again. */
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
  /** The account's key that is accepted. */
  apiKey: string;
  /** What is drawn by chance follows from it; 1 where it is left out. */
  seed?: number;
}

/** The setting that says who may log in, where that is not the vendor's usual user: machines that share this computer have its users. */
export const usersOf = (fleet: Pick<Fleet, "kind">): { ssh_user?: string } =>
  fleet.kind === "plain" ? { ssh_user: userInfo().username } : {};

/** A provider's API on loopback. */
export interface ProviderSim {
  /** Maximum of machines on one page of a list; absent without a list. */
  pageSize?: number;
  readonly name: "podhost" | "market" | "cloudvm" | "notebook";
  /** Base address, once it listens. */
  readonly url: string;
  /** A user's settings for it: variables of the environment, and blocks of credentials.json. */
  settings(): { env: Record<string, string>; credentials: Record<string, unknown> };
  close(): Promise<void>;
}
