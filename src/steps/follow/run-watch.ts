// Supervises a run apart from its log: its checkpoints, its machine, and whether it is idle.
//
// W1. No other work waits for a checkpoint: log, metrics and the machine are supervised during its download, however
//     large it is. A scan that outlives the run, or this step, continues, and the collect step takes over from it.

import { HEARTBEAT_WINDOWS, judgeIdle, judgeStall, type IdleInput } from "../../domain/idleness.ts";
import { describeError } from "../../errors/index.ts";
import type { RunnerSample } from "../../schemas/runner.ts";
import { besideFiles } from "./beside-checkpoints.ts";
import { announced, collectNow, type FollowedRun, type Pulled } from "./log-follower.ts";
import type { HeldMachine } from "../rental/held-machine.ts";
import { MachineWatch } from "../rental/machine-watch.ts";
import { limitWords } from "../checkpoints/listing-limit.ts";
import { noRoomWords } from "../checkpoints/room.ts";
import { idleWindowMs, sampleSeconds } from "../launch/runner-spec.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext } from "../step.ts";

const MINUTE_MS = 60_000;
/** How long GPUs may be busy without any output if the idle watchdog is off. */
const STALL_WINDOW_MS = 30 * MINUTE_MS;
const SCAN_EVERY_MS = 10_000;
const SAMPLES_EVERY_MS = 5_000;
/** Interval at which svc asks for files like checkpoints that are saved where nothing downloads them, until there are some. */
const BESIDE_EVERY_MS = 2 * MINUTE_MS;

/** The script's checkpoint directory on its machine. */
export const checkpointsOf = (
  services: RunServices,
  { jobId, node }: Pick<StepContext, "jobId" | "node">,
  { access }: HeldMachine,
): string => (access.inPlace ? services.checkpointDir(jobId, node) : access.layout().checkpoints);

const BESIDE = "files beside the checkpoints";
/** A script may write any number of oversized files. */
const WARNINGS_MAX = 50;

/** The state of one attempt to follow a run. */
export class RunWatch {
  readonly #services: RunServices;
  readonly #context: StepContext;
  readonly #run: FollowedRun;
  readonly #held: HeldMachine;
  readonly #names = new Set<string>();
  readonly #warned = new Set<string>();
  readonly #idleMs: number;
  readonly #sampleMs: number;
  // Wall time of this computer throughout; the samples' own clock may differ, see `#judge`.
  readonly #launchedAtMs = Date.now();
  #scanDueAt: number;
  #scanning = false;
  #scanFailed: { cause: unknown } | null = null;
  #besideDueAt: number;
  readonly #machine: MachineWatch;
  #samplesDueAt = 0;
  #samples: RunnerSample[] = [];
  #last: { log: number | null; metric: number | null; checkpoint: number | null } = {
    log: null,
    metric: null,
    checkpoint: null,
  };

  constructor(services: RunServices, context: StepContext, run: FollowedRun, held: HeldMachine) {
    this.#services = services;
    this.#context = context;
    this.#run = run;
    this.#held = held;
    const { spec } = services.facts(context.jobId);
    this.#idleMs = idleWindowMs(spec);
    this.#sampleMs = sampleSeconds(spec) * 1000;
    this.#scanDueAt = services.now() + SCAN_EVERY_MS;
    this.#besideDueAt = services.now() + BESIDE_EVERY_MS;
    this.#machine = new MachineWatch(services, context, held);
  }

  samplesDue(): boolean {
    const due = this.#services.now() >= this.#samplesDueAt;
    if (due) this.#samplesDueAt = this.#services.now() + SAMPLES_EVERY_MS;
    return due;
  }

  quietMs(): number {
    // An installation has no checkpoints to scan.
    const scanAt = this.#scanning || this.#run.stream !== "run" ? Infinity : this.#scanDueAt;
    return Math.max(20, Math.min(scanAt, this.#samplesDueAt, this.#machine.dueAt) - this.#services.now());
  }

  /**
   * Whether the machine still serves, at a price within the cap; throws the finding of an earlier poll against that.
   */
  look(): void {
    this.#machine.look();
  }

  async saw(pulled: Pulled): Promise<void> {
    if (this.#run.stream !== "run") return;
    const names = announced(pulled.records, checkpointsOf(this.#services, this.#context, this.#held));
    for (const { path } of names) this.#names.add(path);
    if (pulled.bytes > 0) this.#last.log = Date.now();
    if (pulled.records.length > 0) this.#last.metric = Date.now();
    if (this.#scanFailed) throw this.#scanFailed.cause;
    if (names.length > 0) this.#scanDueAt = 0;
    if (!this.#scanning && this.#services.now() >= this.#scanDueAt) void this.#scan();
    if (pulled.samples.length > 0) await this.#judge(pulled.samples);
  }

  /** Never rejects: the next poll of the run reports its result. */
  async #scan(): Promise<void> {
    this.#scanning = true;
    this.#scanDueAt = this.#services.now() + SCAN_EVERY_MS;
    // Later announcements do not belong to this scan, which removes downloaded names from its own list.
    const names = new Set(this.#names);
    this.#names.clear();
    try {
      const { jobId, node } = this.#context;
      const collector = this.#services.collector(jobId, node);
      const scan = { final: false, announced: names };
      const { saved, pending, skipped, noRoom } = await collectNow(this.#run, collector, scan);
      if (saved.length + pending.length > 0) this.#last.checkpoint = Date.now();
      for (const lack of noRoom) await this.#warnOnce(`no room for ${lack.path}`, noRoomWords(lack));
      await this.#askBeside();
      const limit = skipped.find(({ isLimit }) => isLimit);
      if (!limit) return;
      const { inPlace } = this.#held.access;
      await this.#warnOnce("limit", limitWords(limit.path, { isOver: false, inPlace }));
    } catch (cause) {
      this.#scanFailed = { cause };
    } finally {
      for (const name of names) this.#names.add(name);
      this.#scanning = false;
    }
  }

  async #askBeside(): Promise<void> {
    if (this.#warned.has(BESIDE) || this.#services.now() < this.#besideDueAt) return;
    this.#besideDueAt = this.#services.now() + BESIDE_EVERY_MS;
    const found = await besideFiles(this.#run, false, this.#run.signal);
    if (found !== null) await this.#warnOnce(BESIDE, found.words);
  }

  async #warnOnce(what: string, words: string, about?: "stuck"): Promise<void> {
    if (this.#warned.has(what) || this.#warned.size >= WARNINGS_MAX) return;
    this.#warned.add(what);
    const { jobId, node } = this.#context;
    const { nodes } = this.#services.facts(jobId).spec;
    await this.#services.sink.notice(jobId, "warning", nodes > 1 ? `Node ${node}: ${words}` : words, about);
  }

  async #judge(fresh: RunnerSample[]): Promise<void> {
    // All instants are by the clock that stamped the samples; on a rented machine it may be off by hours.
    const nowMs = this.#held.access.inPlace ? Date.now() : (fresh.at(-1)?.at_ms ?? Date.now());
    const ahead = nowMs - Date.now();
    const there = (atMs: number | null): number | null => (atMs === null ? null : atMs + ahead);
    const windowMs = this.#idleMs > 0 ? this.#idleMs : STALL_WINDOW_MS;
    const keptMs = HEARTBEAT_WINDOWS * windowMs + 2 * MINUTE_MS;
    // Keystrokes and network traffic on this computer need not belong to the run.
    const others = { terminal_idle_seconds: null, net_bytes_per_s: null };
    const seen = this.#held.access.inPlace ? fresh.map((s) => ({ ...s, ...others })) : fresh;
    this.#samples = [...this.#samples, ...seen].filter((s) => s.at_ms >= nowMs - keptMs);
    const input: IdleInput = {
      nowMs,
      launchedAtMs: this.#launchedAtMs + ahead,
      windowMs,
      sampleMs: this.#sampleMs,
      samples: this.#samples,
      lastLogAtMs: there(this.#last.log),
      lastMetricAtMs: there(this.#last.metric),
      // A file that is being downloaded was written a moment ago, or still is.
      lastCheckpointAtMs: there(this.#scanning ? Date.now() : this.#last.checkpoint),
    };
    const stall = judgeStall(input);
    if (stall !== null)
      await this.#warnOnce("stall", `The run may be stuck: ${stall}. It is not ended for that.`, "stuck");
    if (this.#idleMs <= 0) return;
    const verdict = judgeIdle(input);
    if (!verdict.idle) {
      const minutes = this.#idleMs / MINUTE_MS;
      const words = `The run does nothing: ${verdict.warning}. After ${minutes} minutes it is ended (idle_timeout_minutes).`;
      if (verdict.warning !== null) await this.#warnOnce("idle", words, "stuck");
      return;
    }
    const error = describeError("run_idle", { minutes: this.#idleMs / MINUTE_MS, why: verdict.reason });
    await this.#services.sink.idle(this.#context.jobId, this.#context.node, error);
  }
}
