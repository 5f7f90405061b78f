// Watches for a full disk on a rented machine while the script runs. The log is then downloaded in portions, each
// acknowledged at once, so that the runner can write the next one; the script's file writes fail, as on any full disk.
//
// F1. A full disk is reported at once: by a warning, the job's note and the step's detail. The report is withdrawn when
//     there is room again.
// F2. A run that makes progress anyway is left alone. A run without any output is ended, with the disk as the reason.

import { SvcError } from "../../errors/index.ts";
import type { RunLook } from "../../providers/host.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext } from "../step.ts";

/** With less free space than this, no program can work. */
const FULL_BYTES = 256 * 1024;
const MINUTE_MS = 60_000;
/** A run is given up this long after its last sign of life. */
const STUCK_MS = 10 * MINUTE_MS;
const WORDS =
  "The machine's disk is full. File writes fail and logs arrive slowly. Free space with `svc ssh`; otherwise svc ends the run after 10 minutes without output.";

export const isFull = (look: RunLook | null): boolean =>
  typeof look?.disk_free === "number" && look.disk_free < FULL_BYTES;

export class FullDisk {
  readonly #services: RunServices;
  readonly #context: StepContext;
  readonly #machine: string;
  /** Null: unknown. */
  #full: boolean | null = null;
  #movedAt = 0;

  constructor(services: RunServices, context: StepContext, machine: string) {
    this.#services = services;
    this.#context = context;
    this.#machine = machine;
  }

  /**
   * Throws `machine_disk_full` if the run is stuck because of it. @param moved whether any data of the run was
   * downloaded just now.
   */
  async saw(look: RunLook, moved: boolean): Promise<void> {
    if (typeof look.disk_free !== "number") return;
    const now = this.#services.now();
    const full = isFull(look);
    if (moved || this.#full !== true) this.#movedAt = now;
    if (full !== this.#full) {
      const before = this.#full;
      this.#full = full;
      // An earlier control plane may have reported it as full.
      await this.#services.ledger.note(this.#machine, full ? { kind: "disk_full", message: WORDS } : null);
      if (full) await this.#say("warning", WORDS);
      else if (before === true) await this.#say("info", "The machine's disk has free space again.");
    }
    if (!full || now - this.#movedAt < STUCK_MS) return;
    const why = `the run waits for free space, and produced no output for ${STUCK_MS / MINUTE_MS} minutes`;
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
