// A rented machine whose disk is full while the script runs. What the script logs is taken from the machine in portions, each
// acknowledged at once, so that the runner can write the next one; files that it writes fail, as on any full disk.
//
// F1. It is said when it is seen: a warning, the job's note, the step's detail. It is taken back when there is room again.
// F2. A run that goes on all the same is left alone. One of which nothing comes any more is ended, with the disk as the reason.

import { SvcError } from "../../errors/index.ts";
import type { RunLook } from "../../providers/host.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext } from "../step.ts";

/** Less than this is no room for anybody. */
const FULL_BYTES = 256 * 1024;
const MINUTE_MS = 60_000;
/** From the last sign of the run until it is given up. */
const STUCK_MS = 10 * MINUTE_MS;
const WORDS =
  "The disk of the machine is full: what the script writes to files fails, and its log comes home in small portions. Make room there (`svc ssh`), or the run ends when nothing comes of it for 10 minutes.";

export const isFull = (look: RunLook | null): boolean =>
  typeof look?.disk_free === "number" && look.disk_free < FULL_BYTES;

export class FullDisk {
  readonly #services: RunServices;
  readonly #context: StepContext;
  readonly #machine: string;
  /** Null: not known yet. */
  #full: boolean | null = null;
  #movedAt = 0;

  constructor(services: RunServices, context: StepContext, machine: string) {
    this.#services = services;
    this.#context = context;
    this.#machine = machine;
  }

  /** Throws `machine_disk_full` where the run is stuck for it. @param moved whether anything of the run came home just now. */
  async saw(look: RunLook, moved: boolean): Promise<void> {
    if (typeof look.disk_free !== "number") return;
    const now = this.#services.now();
    const full = isFull(look);
    if (moved || this.#full !== true) this.#movedAt = now;
    if (full !== this.#full) {
      const before = this.#full;
      this.#full = full;
      // An earlier control plane may have said that it is full.
      await this.#services.ledger.note(this.#machine, full ? { kind: "disk_full", message: WORDS } : null);
      if (full) await this.#say("warning", WORDS);
      else if (before === true) await this.#say("info", "The disk of the machine has room again.");
    }
    if (!full || now - this.#movedAt < STUCK_MS) return;
    const why = `the run waits for room, and nothing came of it for ${STUCK_MS / MINUTE_MS} minutes`;
    throw new SvcError("machine_disk_full", { machine: this.#machine, why });
  }

  /** For the step's detail. */
  get detail(): Record<string, unknown> {
    return this.#full === true ? { disk: "full" } : {};
  }

  async #say(level: "info" | "warning", words: string): Promise<void> {
    const { jobId, node } = this.#context;
    const { nodes } = this.#services.facts(jobId).spec;
    await this.#services.sink.notice(jobId, level, nodes > 1 ? `Node ${node}: ${words}` : words);
  }
}
