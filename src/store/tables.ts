// The tables, as kysely sees them. Instants are milliseconds since the epoch, money is integer micro-dollars.

import type { Generated, Selectable } from "kysely";

export interface Tables {
  fence: { one: number; epoch: number; pid: number; host: string; started_at: number; installation_id: string };
  job: {
    id: string;
    seq: number;
    version: number;
    state: string;
    /** `state` while the job is active, then the outcome: the status that people see. */
    status: string;
    snapshot: string;
    hash: string;
    /** Why the stored state cannot be continued, or null. */
    parked: string | null;
    label: string | null;
    provider: string;
    gpus: string;
    nodes: number;
    spec: string;
    code_snapshot: string | null;
    left_out: string | null;
    idem_key: string | null;
    idem_hash: string | null;
    exit_code: number | null;
    error: string | null;
    created_at: number;
    started_at: number | null;
    ended_at: number | null;
    /** Disk usage of its files; null until they were measured. */
    disk_bytes: Generated<number | null>;
    /** Null for a run of the default list. */
    archived_at: Generated<number | null>;
    /** JSON of a list. */
    tags: Generated<string>;
  };
  journal: {
    job_id: string;
    seq: number;
    at: number;
    epoch: number;
    type: string;
    event: string;
    from_state: string | null;
    to_state: string;
    hash: string;
  };
  effect: {
    id: Generated<number>;
    job_id: string;
    seq: number;
    step: string;
    node: number;
    state: "running" | "retrying" | "done" | "failed" | "cancelled";
    attempt: number;
    first_at: number;
    next_at: number | null;
  };
  attempt: {
    effect_id: number;
    attempt: number;
    epoch: number;
    status: "running" | "succeeded" | "failed" | "cancelled" | "waiting";
    started_at: number;
    ended_at: number | null;
    error: string | null;
    detail: string | null;
  };
  timer: { job_id: string; name: string; due: number; event: string };
  machine: {
    name: string;
    job_id: string | null;
    node: number;
    ordinal: number;
    provider: string;
    state: "intended" | "unknown" | "held" | "releasing" | "released";
    resource_id: string | null;
    handle: string | null;
    address: string | null;
    price_micro: number | null;
    /** Micro-dollars owed up to `priced_at`. */
    spent_micro: number;
    /** Since when `price_micro` is the price; null: since the order was made. */
    priced_at: number | null;
    created_at: number;
    horizon_at: number;
    held_at: number | null;
    empty_looks: number;
    last_look_at: number | null;
    released_at: number | null;
    proof: string | null;
    note: string | null;
    /** The account of the order, by the provider's name; null if it was unknown. */
    account: string | null;
    /** Number of the placement that ordered it. */
    placement: number;
    /** 1 if the provider may take it back. */
    spot: number;
    /** The highest price per hour that the order accepted, and the part of the budget that it was given. */
    order_micro: number | null;
    most_micro: number | null;
    /** From then on its own guard may have ended it. */
    ends_from: number | null;
    /** It may have existed until then although no list showed it; null where the outcome is proven (ADR 0035). */
    doubt_at: number | null;
  };
  placement: {
    job_id: string;
    n: number;
    candidate: number;
    /** Number of the journal entry that opened it. */
    seq: number;
    provider: string;
    gpus: string;
    region: string | null;
    spot: "never" | "prefer" | "only";
    opened_at: number;
    /** The time at which all its machines were proven gone. */
    closed_at: number | null;
    outcome: string | null;
    failure: string | null;
    /** The step in which it failed. */
    step: string | null;
    error: string | null;
    exit_code: number | null;
    /** The newest complete checkpoint on this computer when it closed. */
    checkpoint: string | null;
    /** JSON of the checkpoint that its script received, or null. */
    resumed_from: string | null;
    /** 1 if another placement followed. */
    goes_on: number;
  };
  feed: { seq: Generated<number>; job_id: string | null; at: number; type: string; data: string };
  log: { job_id: string; stored_bytes: number };
  log_cursor: {
    job_id: string;
    node: number;
    stream: string;
    source_offset: number;
    samples_offset: number;
    ended: number;
  };
  log_time: { job_id: string; offset: number; at_ms: number };
  series: { id: Generated<number>; job_id: string; name: string };
  point: { series_id: number; i: number; step: number; time: number; value: number | null; rank: number };
  checkpoint: {
    job_id: string;
    path: string;
    size: number;
    modified_at: number;
    saved_at: number;
    /** 1 if the script was still writing to it when it was downloaded. */
    in_progress: number;
    /** The placement whose machine saved it. */
    placement: Generated<number>;
  };
  host_verdict: {
    machine: string;
    provider: string;
    gpu: string;
    host: string | null;
    /** A JSON list; null where the machine was not asked. */
    gpu_uuids: string | null;
    verdict: "good" | "bad";
    reason: string | null;
    /** From the order until the first login; null for a machine that was never good. */
    boot_seconds: number | null;
    at: number;
  };
  cost_sum: {
    dim: string;
    key: string;
    kind: string;
    day: string;
    machines: number;
    unpriced: number;
    ms: number;
    unpriced_ms: number;
    unrated_ms: number;
    micro: number;
    estimate_micro: number;
  };
  cost_machine: { name: string; cells: string };
  cost_open: { name: string };
  cost_zone: { one: number; zone: string };
  notice: {
    id: Generated<number>;
    job_id: string | null;
    kind: string;
    at: number;
    key: string | null;
    title: string;
    data: string;
    spread: number;
  };
  notify_target: { name: string; kind: string; settings: string; created_at: number };
  notify_message: {
    id: string;
    target: string;
    job_id: string | null;
    kind: string;
    /** JSON list of ids. */
    notices: string;
    title: string;
    state: "waiting" | "sent" | "merged" | "gave_up";
    attempts: number;
    next_at: number | null;
    error: string | null;
    created_at: number;
    ended_at: number | null;
  };
  notify_setting: { one: number; rules: string; read_up_to: number };
  home_limit: { name: string; value: number };
  limit_wait: {
    id: Generated<number>;
    job_id: string;
    /** How many younger runs were let in before it. */
    passes: number;
    /** JSON of `LimitReason`. */
    reason: string;
  };
  removal: {
    job_id: string;
    begun_at: number;
    ended_at: number | null;
    /** JSON of the retention rule that removed it; null if somebody did. */
    rule: Generated<string | null>;
    label: Generated<string | null>;
    bytes: Generated<number | null>;
    /** 1 once a notice reports the removal. */
    told: Generated<number>;
  };
  retention: {
    one: number;
    rule: string;
    set_at: number;
    seen_at: number;
    looked_at: number | null;
    /** JSON of `Gap[]`. */
    gaps: string;
  };
  /** Checkpoints of ended runs, by their names. */
  checkpoint_removal: { job_id: string; name: string; begun_at: number; ended_at: number | null };
  sink: {
    job_id: string;
    /** Index in the spec's list. */
    sink: number;
    state: "open" | "done" | "gave_up";
    /** Consecutive failures. */
    failures: number;
    error: string | null;
    next_at: number | null;
    copied_at: number | null;
    manifest: string | null;
  };
  sink_copy: {
    job_id: string;
    sink: number;
    path: string;
    size: number;
    modified_at: number;
    sha256: string | null;
    /** Why there will never be a copy; null if there is one. */
    why: string | null;
    copied_at: number;
  };
  sink_upload: {
    job_id: string;
    sink: number;
    path: string;
    size: number;
    sha256: string;
    resume: string | null;
    sent: number;
  };
}

// Row types for reads.

/** Runs hand-written SQL. */
export type All = <Row>(sql: string, ...args: unknown[]) => Row[];

export type JobRow = Selectable<Tables["job"]>;
export type JournalRow = Selectable<Tables["journal"]>;
export type EffectRow = Selectable<Tables["effect"]>;
export type AttemptRow = Selectable<Tables["attempt"]>;
export type TimerRow = Selectable<Tables["timer"]>;
export type MachineRow = Selectable<Tables["machine"]>;
export type PlacementRow = Selectable<Tables["placement"]>;
export type CursorRow = Selectable<Tables["log_cursor"]>;
export type HostVerdictRow = Selectable<Tables["host_verdict"]>;
export type RetentionRow = Selectable<Tables["retention"]>;
export type NoticeRow = Selectable<Tables["notice"]>;
export type TargetRow = Selectable<Tables["notify_target"]>;
export type MessageRow = Selectable<Tables["notify_message"]>;
export type SinkRow = Selectable<Tables["sink"]>;
export type SinkCopyRow = Selectable<Tables["sink_copy"]>;
export type SinkUploadRow = Selectable<Tables["sink_upload"]>;
