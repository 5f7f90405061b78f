// The allowed results of each fault, its time, and its strength. Times are the provider's, which run FACTOR times
// faster.

import type { Capabilities } from "../../src/providers/descriptor.ts";
import { DESCRIPTORS } from "../../src/providers/descriptors.ts";
import type { FaultName } from "../sim/providers/parts.ts";
import { PROVIDERS, SPECS, type ProviderCase } from "./world.ts";

const SECOND = 1_000;
const MINUTE = 60_000;

/**
 * `start`: before the first request. A boundary: when it is reached. `any`: at a boundary that the cell's seed draws.
 */
export type When = "start" | "sim.made" | "machine.held" | "log" | "any";

export interface FaultCase {
  when: When;
  measure?: number;
  /** Error codes with which the job may end; `succeeded` if it may succeed. */
  ends: readonly string[];
  /** Error codes with which the job may also end if another fault used up its other machines, and this one has the last. */
  last?: readonly string[];
  /** Minimum duration of the run, in seconds of this computer. */
  seconds?: number;
  /** Further fields of the run's spec. */
  spec?: Record<string, unknown>;
  /** The providers that can have this fault; the notebook has no API that could refuse a request. */
  only?: readonly ProviderCase[];
}

const FINE = ["succeeded"] as const;
const LOST = ["machine_lost", "machine_broken"] as const;
/** The providers with these capabilities. */
export const having = (has: (capabilities: Capabilities) => boolean): readonly ProviderCase[] =>
  PROVIDERS.filter((name) => has(DESCRIPTORS[SPECS[name].provider].capabilities));
export const OWNED = having(({ owns_machine }) => owns_machine);
const PRICED = having(({ owns_machine, reports_price }) => owns_machine && reports_price);
const SPOT = having(({ spot }) => spot);

export const FAULT_CASES: Readonly<Record<FaultName | "none", FaultCase>> = {
  none: { when: "start", ends: FINE },
  lost_after_create: { when: "start", ends: FINE, only: OWNED },
  error_after_create: { when: "start", ends: FINE, only: OWNED },
  error_before_create: { when: "start", ends: FINE, only: OWNED },
  slow_create: { when: "start", measure: 45 * SECOND, ends: FINE, only: OWNED },
  listing_lag: { when: "start", measure: 60 * SECOND, ends: FINE, only: OWNED },
  no_capacity: { when: "start", ends: ["no_offer", "offer_taken", "no_quota"], only: OWNED },
  // A run waits for about a minute.
  sold_out: { when: "start", measure: 20 * SECOND, ends: FINE, only: OWNED },
  offer_taken: { when: "start", measure: 2, ends: FINE, only: OWNED },
  delete_ignored: { when: "start", ends: FINE, only: OWNED },
  delete_errors: { when: "start", measure: 5 * MINUTE, ends: FINE, only: OWNED },
  delete_lost: { when: "start", ends: FINE, only: OWNED },
  hang: { when: "any", measure: 40 * SECOND, ends: FINE },
  // The API in use changes in the middle of a run.
  api_retired: { when: "any", ends: FINE, only: ["podhost"] },
  api_retiring: { when: "any", ends: FINE, only: ["podhost"] },
  api_limited: { when: "any", ends: FINE, only: ["podhost"] },
  rate_limited: { when: "any", measure: 4, ends: FINE, only: OWNED },
  html_200: { when: "any", measure: 2, ends: FINE, only: OWNED },
  cut_json: { when: "any", measure: 2, ends: FINE, only: OWNED },
  json_bomb: { when: "any", measure: 1, ends: FINE, only: OWNED },
  price_nan: { when: "start", ends: ["no_offer", "price_unknown"], only: PRICED },
  price_null: { when: "start", ends: ["no_offer", "price_unknown"], only: PRICED },
  price_text: { when: "start", ends: ["no_offer", "price_unknown"], only: PRICED },
  price_moves: { when: "start", measure: 1_000, ends: ["price_cap_exceeded"], only: PRICED },
  price_higher: { when: "start", measure: 1_000, ends: ["price_cap_exceeded"], only: PRICED },
  price_rises: { when: "log", measure: 1_000, ends: ["price_cap_exceeded"], seconds: 8, only: PRICED },
  price_rises_early: { when: "machine.held", measure: 1_000, ends: ["price_cap_exceeded"], only: PRICED },
  hostile_strings: { when: "start", ends: ["machine_unfit", "machine_broken", "step_timed_out"], only: OWNED },
  port_swap: { when: "log", measure: SECOND, ends: FINE, seconds: 3 },
  // Another machine is rented when one did not boot, or is unfit; the retries are limited.
  boot_never: { when: "start", ends: FINE, last: ["step_timed_out"], only: OWNED },
  // Another machine is rented, whether the provider still has the machine that halted itself or has deleted it.
  boot_fails: { when: "start", ends: FINE, only: OWNED },
  // The host is to blame: another machine of the same order is rented.
  container_refused: { when: "start", ends: FINE, only: PRICED },
  // No other machine of the same order would do better.
  image_missing: { when: "start", ends: ["machine_broken"], only: PRICED },
  dead_hosts: { when: "start", ends: FINE, last: ["step_timed_out"], only: OWNED },
  bad_hosts: { when: "start", ends: FINE, only: OWNED },
  busy_hosts: { when: "start", ends: FINE, only: OWNED },
  // Machines that share this computer have no nvidia-smi, and pass with a warning.
  gpu_lost: { when: "start", ends: ["machine_unfit", "succeeded"], only: OWNED },
  gpu_other: { when: "start", ends: ["machine_unfit", "succeeded"], only: OWNED },
  key_refused_first: { when: "start", measure: 40 * SECOND, ends: FINE, only: OWNED },
  key_refused: { when: "start", ends: ["machine_unfit"] },
  // An open connection does not check the host key again: only a restarted control plane finds out.
  host_key_changes: { when: "log", measure: SECOND, ends: ["succeeded", "host_key_changed"], seconds: 3 },
  // Before the checkpoint is at home, the run ends; afterwards it continues on another machine.
  vanishes: { when: "log", measure: SECOND, ends: [...LOST, "succeeded"], seconds: 8 },
  preempted: { when: "log", measure: SECOND, ends: [...LOST, "machine_preempted", "succeeded"], seconds: 8 },
  // Half to one and a half of its measure after the machine runs.
  spot_taken: {
    when: "start",
    measure: 6 * MINUTE,
    ends: ["machine_preempted", "succeeded"],
    seconds: 20,
    spec: { spot: "only" },
    only: SPOT,
  },
  freezes: { when: "log", measure: MINUTE, ends: FINE, seconds: 3 },
  black_hole: { when: "log", measure: 3 * MINUTE, ends: FINE, seconds: 3 },
  slow_link: { when: "start", ends: FINE },
  // The log continues in small portions; the checkpoint cannot be written. With several runs, the first one's log
  // arrives while another's project is still being sent.
  disk_full: { when: "log", measure: SECOND, ends: ["succeeded", "script_failed", "machine_disk_full"], seconds: 3 },
};

/**
 * The faults that end a placement while another may follow, for a run that resumes and may use a second provider. It must succeed.
 * `until`: the provider is as usual again once the first placement has ended, because the same candidate comes first again.
 */
export const MOVES: Readonly<
  Partial<
    Record<
      FaultName,
      {
        when: "start" | "checkpoint.saved";
        until?: "placement.closed";
        /** Its first script does not end before its machine is taken. */
        holds?: true;
        /** Further fields of the run's spec, and of each candidate. */
        spec?: Record<string, unknown>;
        candidate?: Record<string, unknown>;
      }
    >
  >
> = {
  vanishes: { when: "checkpoint.saved", holds: true },
  preempted: { when: "checkpoint.saved", holds: true },
  // It may strike before a checkpoint is saved.
  spot_taken: {
    when: "start",
    until: "placement.closed",
    holds: true,
    spec: { retry: { max: 5, on: ["machine_unfit", "boot_failed", "machine_lost", "preempted"] } },
    candidate: { spot: "only" },
  },
  boot_never: { when: "start" },
  boot_fails: { when: "start" },
  dead_hosts: { when: "start" },
  bad_hosts: { when: "start" },
  busy_hosts: { when: "start" },
  gpu_lost: { when: "start", until: "placement.closed" },
  container_refused: { when: "start" },
  // The default images of two providers are two images.
  image_missing: { when: "start" },
  no_capacity: { when: "start" },
  sold_out: { when: "start" },
};

/** Differences of the notebook: no provider can say whether its machine still exists, so its closed tunnel must. */
export const NOTEBOOK_ENDS: Readonly<Partial<Record<FaultName, readonly string[]>>> = {
  vanishes: ["runtime_gone"],
  preempted: ["runtime_gone"],
};

const endsOf = (provider: ProviderCase, fault: FaultName | "none"): readonly string[] =>
  (provider === "notebook" && fault !== "none" ? NOTEBOOK_ENDS[fault] : undefined) ?? FAULT_CASES[fault].ends;

/** Either of two faults may decide; a success in spite of both is allowed only if each of them allows it. */
export function endsOfAll(provider: ProviderCase, faults: readonly (FaultName | "none")[]): readonly string[] {
  const all = faults.map((fault) => endsOf(provider, fault));
  const canSucceed = all.every((ends) => ends.includes("succeeded"));
  const last = canSucceed ? [] : faults.flatMap((fault) => FAULT_CASES[fault].last ?? []);
  const any = [...new Set([...all.flat(), ...last])];
  return any.filter((end) => end !== "succeeded" || canSucceed);
}

export const appliesTo = (provider: ProviderCase, fault: FaultName | "none"): boolean =>
  FAULT_CASES[fault].only?.includes(provider) ?? true;
