// Runs of every kind, with texts that contain markup.

import type {
  CheckpointFile,
  JobRecord,
  LedgerMachine,
  MetricPoint,
  ProviderInfo,
  TimelineStep,
} from "../../src/schemas/job.ts";
import { fakeAnswers } from "./fake-answers.ts";
import { HOSTILE } from "./hostile.ts";
import type { FakeRun, FakeWorld } from "./fake-server.ts";

export { HOSTILE };

const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

export function step(
  name: TimelineStep["step"],
  from: number,
  to: number | null,
  rest: Partial<TimelineStep> = {},
): TimelineStep {
  return {
    step: name,
    node: 0,
    attempt: 1,
    status: to === null ? "running" : "succeeded",
    started_at: ago(from),
    ended_at: to === null ? null : ago(to),
    error: null,
    detail: null,
    next_attempt_at: null,
    placement: 1,
    ...rest,
  };
}

export function fakeRun(id: string, createdAgo: number, rest: Partial<JobRecord> = {}): FakeRun {
  const record: JobRecord = {
    id,
    status: "succeeded",
    exit_code: 0,
    cost_usd: 0,
    cost_estimate_usd: null,
    rate_usd_per_hour: null,
    budget_usd: null,
    spent_usd: null,
    budget_left_usd: null,
    budget_kept_usd: null,
    budget_stops_at: null,
    label: null,
    tags: [],
    provider: "local",
    gpus: "cpu",
    nodes: 1,
    entrypoint: "train.py",
    args: [],
    created_at: ago(createdAgo),
    started_at: ago(createdAgo - 1),
    ended_at: ago(Math.max(0, createdAgo - 60)),
    price_per_hour_usd: 0,
    machines: [],
    placements: 1,
    error: null,
    resumed_from: null,
    code_snapshot: "c0ffee",
    disk_bytes: 12_400_000,
    archived_at: null,
    left_out: null,
    note: null,
    spec: {
      entrypoint: rest.entrypoint ?? "train.py",
      args: [],
      provider: "local",
      gpus: "cpu",
      nodes: 1,
      env: { TOKEN: "***redacted***" },
    },
    ...rest,
  };
  return {
    record,
    timeline: {
      steps: [step("provision", createdAgo, createdAgo - 1)],
      transitions: [
        { seq: 1, from: null, to: "provisioning", event: "job.submitted", at: record.created_at, placement: 1 },
      ],
    },
    log: Buffer.from("one line\n"),
    metrics: {},
    checkpoints: [],
    code: {
      id: "c0ffee",
      bytes: 9_130,
      created_at: record.created_at,
      git: { commit: "4f1d22c9a0b1", branch: "main", dirty: true },
      files: [
        { path: "train.py", size: 4_200, sha256: "0".repeat(64), mode: "file" },
        { path: `data/${HOSTILE}`, size: 30, sha256: "1".repeat(64), mode: "file" },
        { path: "run.sh", size: 4_900, sha256: "2".repeat(64), mode: "executable" },
      ],
    },
  };
}

const curve = (count: number, value: (i: number) => number): MetricPoint[] =>
  Array.from({ length: count }, (_, i) => ({ step: i * 10, time: 1_700_000_000 + i, value: value(i), rank: 0 }));

const noise = (i: number) => Math.sin(i * 12.9898) * 0.5 + Math.sin(i * 78.233) * 0.5;

function digits(): FakeRun {
  const run = fakeRun("r1-digits", 48, {
    label: "digits, two hidden layers",
    status: "running",
    exit_code: null,
    started_at: ago(46),
    ended_at: null,
    entrypoint: "examples/digits/train.py",
    args: ["--epochs", "40"],
    machines: [
      {
        id: "local-1",
        name: "svc-r1-digits-0",
        node: 0,
        address: null,
        state: "held",
        price_per_hour_usd: 0,
        created_at: ago(47),
        terminated_at: null,
      },
    ],
  });
  run.timeline = {
    steps: [
      step("provision", 47.9, 47.6),
      step("await_ssh", 47.6, 47.5),
      step("sync", 47.5, 47.1),
      step("install", 47.1, 46.4),
      step("launch", 46.4, 46),
      step("stream", 46, null),
    ],
    transitions: [
      { seq: 1, from: null, to: "provisioning", event: "job.submitted", at: ago(48), placement: 1 },
      {
        seq: 2,
        from: "provisioning",
        to: "awaiting_ssh",
        event: "step.provision.succeeded",
        at: ago(47.6),
        placement: 1,
      },
      { seq: 3, from: "awaiting_ssh", to: "syncing", event: "step.await_ssh.succeeded", at: ago(47.5), placement: 1 },
      { seq: 4, from: "syncing", to: "installing", event: "step.sync.succeeded", at: ago(47.1), placement: 1 },
      { seq: 5, from: "installing", to: "running", event: "step.install.succeeded", at: ago(46.4), placement: 1 },
    ],
  };
  run.log = Buffer.from(
    "loading digits.csv.gz: 1797 images of 8×8\n" +
      Array.from(
        { length: 60 },
        (_, i) =>
          `\u001b[2mepoch\u001b[0m ${String(i + 1).padStart(3)}  loss \u001b[33m${(2.3 * Math.exp(-i / 15)).toFixed(4)}\u001b[0m  accuracy \u001b[32m${(0.97 - 0.85 * Math.exp(-i / 9)).toFixed(4)}\u001b[0m\n`,
      ).join(""),
  );
  run.metrics = {
    loss: curve(200, (i) => 2.3 * Math.exp(-i / 45) + 0.04 * noise(i) + 0.08),
    accuracy: curve(200, (i) => 0.97 - 0.85 * Math.exp(-i / 30) + 0.01 * noise(i)),
    learning_rate: curve(200, (i) => 0.001 * 0.99 ** i),
    [HOSTILE]: curve(3, (i) => i),
  };
  run.checkpoints = checkpoints();
  return run;
}

const checkpoints = (): CheckpointFile[] => [
  { path: "epoch-020/model.bin", size: 48_230_112, modified_at: ago(20) },
  { path: "epoch-010/model.bin", size: 48_230_112, modified_at: ago(34) },
  { path: `epoch-010/${HOSTILE}`, size: 812, modified_at: ago(34) },
];

function failed(): FakeRun {
  const run = fakeRun("r2-failed", 3_900, {
    label: HOSTILE,
    status: "failed",
    exit_code: 1,
    cost_usd: 0.0831,
    provider: "podhost",
    gpus: "A100:2",
    price_per_hour_usd: 2.98,
    error: {
      code: "run_failed",
      message: "The script ended with exit code 1. Its machine is terminated and costs nothing more.",
      hint: "The last lines of the log say why.",
    },
    machines: [
      {
        id: "p-77",
        name: "svc-r2-failed-0",
        node: 0,
        address: "203.0.113.9",
        state: "released",
        price_per_hour_usd: 2.98,
        created_at: ago(3_890),
        terminated_at: ago(3_700),
      },
    ],
  });
  run.log = Buffer.from(
    `${HOSTILE}\n\u001b]8;;javascript:alert(1)\u0007click\u001b]8;;\u0007 \u001b[31mred\u001b[0m plain\n10%\r50%\r100%\nTraceback (most recent call last):\nValueError: loss is nan\n`,
  );
  run.metrics = { loss: [...curve(4, (i) => 1 / (i + 1)), { step: 40, time: 1_700_000_040, value: "NaN", rank: 0 }] };
  return run;
}

function retrying(): FakeRun {
  const run = fakeRun("r3-retry", 130, {
    label: "llama finetune, 4 nodes",
    status: "provisioning",
    exit_code: null,
    started_at: null,
    ended_at: null,
    provider: "market",
    gpus: "H100:8",
    nodes: 2,
    price_per_hour_usd: 18.4,
    note: { kind: "step_retrying", message: "provision is retried in a moment" },
    rate_usd_per_hour: 18.4,
    budget_usd: 40,
    spent_usd: 31.25,
    budget_left_usd: 8.35,
    budget_kept_usd: 0.4,
    budget_stops_at: new Date(Date.now() + 1_634_000).toISOString(),
    machines: [
      {
        id: null,
        name: "svc-r3-retry-0",
        node: 0,
        address: null,
        state: "intended",
        price_per_hour_usd: 18.4,
        created_at: ago(128),
        terminated_at: null,
      },
    ],
  });
  const error = {
    code: "provider_unavailable",
    message: "The provider answered 503.",
    hint: "Nothing was bought; it is tried again.",
  };
  run.timeline.steps = [
    step("provision", 128, 110, { status: "failed", error }),
    step("provision", 60, 22, {
      attempt: 2,
      status: "retrying",
      error,
      next_attempt_at: new Date(Date.now() + 600_000).toISOString(),
    }),
    step("provision", 128, 90, { node: 1 }),
    step("await_ssh", 90, null, { node: 1 }),
  ];
  return run;
}

function long(): FakeRun {
  const run = fakeRun("r4-long", 7_300, {
    label: "baseline sweep 3",
    cost_usd: 12.4375,
    provider: "market",
    gpus: "RTX4090",
    price_per_hour_usd: 0.44,
    ended_at: ago(400),
  });
  run.log = Buffer.from(Array.from({ length: 5_000 }, (_, i) => `line ${i + 1} of five thousand\n`).join(""));
  run.timeline.steps = [
    step("provision", 7_300, 7_240),
    step("await_ssh", 7_240, 7_160),
    step("sync", 7_160, 7_150),
    step("install", 7_150, 7_000),
    step("launch", 7_000, 6_998),
    step("stream", 6_998, 450),
    step("collect", 450, 420),
    step("terminate", 420, 400),
  ];
  return run;
}

const ending = () =>
  fakeRun("r5-ending", 5_400, {
    label: "ablation, no dropout",
    status: "terminating",
    exit_code: null,
    ended_at: null,
    provider: "cloudvm",
    gpus: "L4",
    price_per_hour_usd: null,
    note: { kind: "terminating", message: "The machine may still cost money." },
    cost_usd: 0,
    machines: [
      {
        id: "vm-1",
        name: "svc-r5-ending-0",
        node: 0,
        address: "198.51.100.4",
        state: "releasing",
        price_per_hour_usd: null,
        created_at: ago(5_390),
        terminated_at: null,
      },
    ],
  });

const machine = (name: string, rest: Partial<LedgerMachine>): LedgerMachine => {
  const { price_per_hour_usd: price = 1, age_seconds: age = 600 } = rest;
  return {
    name,
    id: name,
    provider: "market",
    job_id: null,
    node: 0,
    state: "held",
    address: null,
    price_per_hour_usd: 1,
    created_at: ago(600),
    age_seconds: 600,
    note: null,
    cost_usd: price === null ? null : (price * age) / 3_600,
    ...rest,
  };
};

const provider = (name: ProviderInfo["name"], connected: boolean, missing: string[]): ProviderInfo => ({
  name,
  speaks: name,
  connected,
  source: connected ? "none_needed" : null,
  missing,
  capabilities: {
    runs_here: false,
    bills: true,
    gpus: "optional" as const,
    owns_machine: true,
    reports_price: true,
    nodes_max: 1,
    self_end: false,
    list_by_tag: true,
    spot: false,
  },
  stops_by_itself: "no",
});

export function fakeWorld(): FakeWorld {
  const older = Array.from({ length: 60 }, (_, i) =>
    fakeRun(`r9-${String(i).padStart(3, "0")}`, 90_000 + i * 900, {
      status: i % 7 === 0 ? "cancelled" : "succeeded",
      label: i % 3 === 0 ? null : `nightly ${60 - i}`,
    }),
  );
  return {
    runs: [digits(), failed(), retrying(), long(), ending(), ...older],
    machines: [
      machine("svc-r3-retry-1", { job_id: "r3-retry", price_per_hour_usd: 18.4, age_seconds: 90 }),
      machine("svc-r5-ending-0", {
        provider: "cloudvm",
        job_id: "r5-ending",
        state: "releasing",
        price_per_hour_usd: null,
        age_seconds: 5_390,
      }),
      machine("svc-r1-digits-0", { provider: "local", job_id: "r1-digits", price_per_hour_usd: 0 }),
    ],
    answers: fakeAnswers(),
    providers: [
      provider("local", true, []),
      provider("market", false, ["MARKET_API_KEY"]),
      provider("podhost", true, []),
    ],
  };
}

/** The run that the fake server makes on POST /jobs. */
export function submitted(label: string | null, spec: Record<string, unknown>): FakeRun {
  const run = fakeRun(`n${Date.now().toString(36)}`, 0, {
    label,
    status: "provisioning",
    exit_code: null,
    started_at: null,
    ended_at: null,
    entrypoint: String(spec["entrypoint"]),
    args: (spec["args"] as string[] | undefined) ?? [],
    spec,
  });
  run.log = Buffer.alloc(0);
  run.timeline.steps = [step("provision", 0, null)];
  return run;
}
