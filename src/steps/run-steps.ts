// From a machine that exists to a run that has ended: await_ssh, sync, install, launch, stream, collect.

import { judgeIdle } from "../domain/idleness.ts";
import { describeError, SvcError } from "../errors/index.ts";
import type { MachineHandle, Provider } from "../providers/provider.ts";
import type { RunHost } from "../providers/host.ts";
import type { RunnerSample, RunnerStatus } from "../schemas/runner.ts";
import { announced, collectNow, Follower, type FollowedRun, type Pulled } from "./follow.ts";
import type { RunServices } from "./run-services.ts";
import { idleWindowMs, sampleSeconds, STOP_GRACE_SECONDS } from "./run-plan.ts";
import { throwIfAborted, type StepContext, type StepDefinition } from "./step.ts";

const MINUTE_MS = 60_000;
const SCAN_EVERY_MS = 10_000;
const SAMPLES_EVERY_MS = 5_000;
/** Pulls of a chatty run are at least this far apart, so that they come home in larger pieces. */
const PULL_GAP_MS = 15;
const ONCE_MORE = { attemptsMax: 5, delayMsMin: 500, delayMsMax: 30_000 };
/** The run lives on the machine: to lose sight of it is no reason to end it. Only an error that says "never" is. */
const FOR_EVER = { attemptsMax: Number.MAX_SAFE_INTEGER, delayMsMin: 500, delayMsMax: 30_000 };

function heldMachine(services: RunServices, context: StepContext): { provider: Provider; handle: MachineHandle } {
  const facts = services.facts(context.jobId);
  const provider = services.provider(facts.spec.provider);
  const entry = services.ledger.open(context.jobId, context.node).find((e) => e.handle !== null);
  if (!entry?.handle)
    throw new SvcError("machine_lost", { provider: provider.name, machine: `of node ${context.node}` });
  return { provider, handle: entry.handle };
}

export function awaitSshStep(services: RunServices): StepDefinition {
  return {
    name: "await_ssh",
    retry: ONCE_MORE,
    attemptMs: 2 * MINUTE_MS,
    async run(context) {
      const { provider, handle } = heldMachine(services, context);
      const status = await provider.inspect(handle, context.signal);
      if (status.phase === "gone")
        throw new SvcError("machine_lost", { provider: provider.name, machine: handle.name, why: status.why });
      if (status.phase === "broken")
        throw new SvcError("machine_broken", { provider: provider.name, machine: handle.name, why: status.why });
      if (status.phase === "starting") return { later: { afterMs: 3_000, why: status.why } };
      return { done: {}, detail: { address: status.address ?? "this computer" } };
    },
  };
}

export function syncStep(services: RunServices): StepDefinition {
  return {
    name: "sync",
    retry: ONCE_MORE,
    async run({ jobId }) {
      const { projectDir, spec } = services.facts(jobId);
      await services.entry(projectDir, spec.entrypoint);
      return {
        done: {},
        detail: { bytes: 0, how: "a local run works in the project directory itself", project_dir: projectDir },
      };
    },
  };
}

export function installStep(services: RunServices): StepDefinition {
  return {
    name: "install",
    retry: { attemptsMax: 1, delayMsMin: 1_000, delayMsMax: 1_000 },
    async run(context) {
      const { jobId, node, signal } = context;
      const { spec, projectDir } = services.facts(jobId);
      if (spec.install === "none" || spec.install === "auto") {
        const how =
          spec.install === "none" ? "install is none" : "a local run uses the packages of this computer's Python";
        return { done: {}, detail: { skipped: how } };
      }
      const { provider, handle } = heldMachine(services, context);
      const host = provider.access(handle).host("install");
      const plan = await services.plan(jobId, node, "install");
      const runner = { ...plan.runner, argv: ["/bin/sh", "-c", spec.install], cwd: projectDir };
      await host.start(runner, plan.secretEnv, signal);
      const status = await followToEnd(services, context, { host, stream: "install" });
      if (status.exit_code !== 0) {
        const last = services.lastLine(jobId);
        throw new SvcError("install_failed", { exit_code: status.exit_code ?? 255, last });
      }
      return { done: {}, detail: { command: spec.install } };
    },
  };
}

export function launchStep(services: RunServices): StepDefinition {
  return {
    name: "launch",
    retry: ONCE_MORE,
    attemptMs: 5 * MINUTE_MS,
    async run(context) {
      const { jobId, node, signal } = context;
      const { provider, handle } = heldMachine(services, context);
      const plan = await services.plan(jobId, node, "run");
      throwIfAborted(signal);
      const status = await provider.access(handle).host("run").start(plan.runner, plan.secretEnv, signal);
      if (status.phase === "failed") throw new SvcError("runner_failed", { why: status.error ?? "it gave no reason" });
      return { done: {}, detail: { pid: status.pid, argv: plan.runner.argv } };
    },
  };
}

export function streamStep(services: RunServices): StepDefinition {
  return {
    name: "stream",
    retry: FOR_EVER,
    async run(context) {
      const { provider, handle } = heldMachine(services, context);
      const status = await followToEnd(services, context, { host: provider.access(handle).host("run"), stream: "run" });
      return {
        done: outcomeOf(status, context.node),
        detail: { exit_code: status.exit_code, signal: status.signal, log_bytes: status.log_bytes },
      };
    },
  };
}

function outcomeOf(status: RunnerStatus, node: number): Record<string, unknown> {
  const exit_code = status.exit_code ?? 255;
  if (status.phase === "failed") {
    return { exit_code, error: describeError("run_lost", { why: status.error ?? "the runner ended without a word" }) };
  }
  if (exit_code === 0 && !status.stopped) return { exit_code, error: null };
  const signal = status.oom ? "the system, which was out of memory" : status.signal;
  return { exit_code, error: describeError("script_failed", { exit_code, signal, node }) };
}

/** Pulls until the run is over and all that it wrote is home. */
async function followToEnd(
  services: RunServices,
  context: StepContext,
  what: { host: RunHost; stream: "run" | "install" },
): Promise<RunnerStatus> {
  const { jobId, node, signal } = context;
  const run: FollowedRun = { jobId, node, ...what, sink: services.sink, ...services.secrecy(jobId), signal };
  const follower = new Follower(run);
  const watch = new Watch(services, context, run);
  for (;;) {
    throwIfAborted(signal);
    // The status is read before the log: when it says "over", every byte it counts can be read.
    const status = await what.host.status(signal);
    const over = status !== null && status.phase !== "running";
    const pulled = await follower.pull(over ? status.log_bytes : null, watch.samplesDue());
    await watch.saw(pulled);
    context.progress({ log_bytes: follower.offset });
    if (over) {
      await follower.drain(status);
      return status;
    }
    if (status === null) throw new SvcError("run_lost", { why: "its run directory is gone" });
    if (pulled.bytes === 0) await what.host.changed({ logOffset: follower.offset }, watch.quietMs(), signal);
    else await services.pause(PULL_GAP_MS);
  }
}

/** What is looked after beside the log: checkpoints now and then, and whether the run does anything at all. */
class Watch {
  readonly #services: RunServices;
  readonly #context: StepContext;
  readonly #run: FollowedRun;
  readonly #names = new Set<string>();
  readonly #idleMs: number;
  readonly #sampleMs: number;
  // Wall time throughout: the clock that stamps the runner's samples.
  readonly #launchedAtMs = Date.now();
  #scanDueAt: number;
  #samplesDueAt = 0;
  #samples: RunnerSample[] = [];
  #last: { log: number | null; metric: number | null; checkpoint: number | null } = {
    log: null,
    metric: null,
    checkpoint: null,
  };

  constructor(services: RunServices, context: StepContext, run: FollowedRun) {
    this.#services = services;
    this.#context = context;
    this.#run = run;
    const { spec } = services.facts(context.jobId);
    this.#idleMs = idleWindowMs(spec);
    this.#sampleMs = sampleSeconds(spec) * 1000;
    this.#scanDueAt = services.now() + SCAN_EVERY_MS;
  }

  samplesDue(): boolean {
    const due = this.#services.now() >= this.#samplesDueAt;
    if (due) this.#samplesDueAt = this.#services.now() + SAMPLES_EVERY_MS;
    return due;
  }

  quietMs(): number {
    return Math.max(20, Math.min(this.#scanDueAt, this.#samplesDueAt) - this.#services.now());
  }

  async saw(pulled: Pulled): Promise<void> {
    if (this.#run.stream !== "run") return;
    const { jobId, node } = this.#context;
    const names = announced(pulled.records, this.#services.checkpointDir(jobId, node));
    for (const name of names) this.#names.add(name);
    if (pulled.bytes > 0) this.#last.log = Date.now();
    if (pulled.records.length > 0) this.#last.metric = Date.now();
    if (names.length > 0 || this.#services.now() >= this.#scanDueAt) {
      this.#scanDueAt = this.#services.now() + SCAN_EVERY_MS;
      const { saved, pending } = await collectNow(this.#run, this.#services.collector(jobId, node), this.#names, false);
      if (saved.length + pending.length > 0) this.#last.checkpoint = Date.now();
    }
    if (this.#idleMs > 0 && pulled.samples.length > 0) await this.#judge(pulled.samples);
  }

  async #judge(fresh: RunnerSample[]): Promise<void> {
    const nowMs = Date.now();
    this.#samples = [...this.#samples, ...fresh].filter((s) => s.at_ms >= nowMs - this.#idleMs - 2 * MINUTE_MS);
    const verdict = judgeIdle({
      nowMs,
      launchedAtMs: this.#launchedAtMs,
      windowMs: this.#idleMs,
      sampleMs: this.#sampleMs,
      samples: this.#samples,
      lastLogAtMs: this.#last.log,
      lastMetricAtMs: this.#last.metric,
      lastCheckpointAtMs: this.#last.checkpoint,
    });
    if (!verdict.idle) return;
    const error = describeError("run_idle", { minutes: this.#idleMs / MINUTE_MS, why: verdict.reason });
    await this.#services.sink.idle(this.#context.jobId, this.#context.node, error);
  }
}

export function collectStep(services: RunServices): StepDefinition {
  return {
    name: "collect",
    retry: { attemptsMax: 10, delayMsMin: 1_000, delayMsMax: 30_000 },
    async run(context) {
      const { jobId, node } = context;
      const entry = services.ledger.open(jobId, node).find((e) => e.handle !== null);
      if (!entry?.handle) return { done: { exit_code: null }, detail: { nothing: "there was no machine" } };
      const provider = services.provider(services.facts(jobId).spec.provider);
      await bringHome(services, context, provider.access(entry.handle).host("install"), "install");
      const run = await bringHome(services, context, provider.access(entry.handle).host("run"), "run");
      if (run === null) return { done: { exit_code: null }, detail: { nothing: "the script was never started" } };
      context.progress({ doing: "bringing checkpoints home" });
      const { saved, skipped } = await collectNow(run.followed, services.collector(jobId, node), new Set(), true);
      const left = skipped.map((s) => `${s.path}: ${s.why}`).slice(0, 20);
      const detail = {
        log_bytes: run.bytes,
        checkpoints: saved.length,
        ...(left.length > 0 ? { left_out: left } : {}),
      };
      return { done: { exit_code: run.status.exit_code }, detail };
    },
  };
}

/** Ends what still runs and takes the rest of its log; null when nothing was ever started. */
async function bringHome(services: RunServices, context: StepContext, host: RunHost, stream: "run" | "install") {
  const { jobId, node, signal } = context;
  let status = await host.status(signal);
  if (status === null) return null;
  if (status.phase === "running") {
    context.progress({ doing: "asking the script to end" });
    await host.stop(STOP_GRACE_SECONDS, signal);
    status = (await host.status(signal)) ?? status;
  }
  const followed: FollowedRun = { jobId, node, host, stream, sink: services.sink, ...services.secrecy(jobId), signal };
  const follower = new Follower(followed);
  await follower.drain(status);
  return { status, followed, bytes: follower.offset };
}
