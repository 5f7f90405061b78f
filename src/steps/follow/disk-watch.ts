// Watches for a full disk on a rented machine while the script runs. The log is then downloaded in portions, each
// acknowledged at once, so that the runner can write the next one; the script's file writes fail, as on any full disk.
//
// F1. A full disk is reported at once: by a warning, the job's note and the step's detail. The report is withdrawn when
//     there is room again.
// F2. A run that makes progress anyway is left alone. A run without any output is ended, with the disk as the reason.
// F3. A disk that refuses a small file counts as full, whatever its free space: by a quota, by its number of files, because it is read-only.

import { SvcError } from "../../errors/index.ts";
import type { RunLook } from "../../providers/host.ts";
import type { DiskFault } from "../../schemas/runner.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext } from "../step.ts";

/** With less free space than this, no program can work. */
const FULL_BYTES = 256 * 1024;
const MINUTE_MS = 60_000;
/** A run is given up this long after its last sign of life. */
const STUCK_MS = 10 * MINUTE_MS;
const WORDS =
  "The machine's disk is full. File writes fail and logs arrive slowly. Free space with `svc ssh`; otherwise svc ends the run after 10 minutes without output.";

/** Faults that freed space does not mend. */
const BROKEN: Partial<Record<DiskFault, string>> = {
  EROFS: "it is read-only",
  EIO: "it reports errors",
  EFBIG: "its user may write only small files, by `ulimit -f`",
};
const brokenWords = (why: string): string =>
  `The machine's disk takes no bytes: ${why}. File writes fail and logs do not arrive. svc ends the run after 10 minutes without output.`;

export const isFull = (look: RunLook | null): boolean =>
  (typeof look?.disk_free === "number" && look.disk_free < FULL_BYTES) || (look?.disk_fault ?? null) !== null;

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
   * Throws `machine_disk_full` or `machine_unfit` if the run is stuck because of it. @param moved whether any data of the run was
   * downloaded just now.
   */
  async saw(look: RunLook, moved: boolean): Promise<void> {
    const fault = look.disk_fault ?? null;
    if (typeof look.disk_free !== "number" && fault === null) return;
    const broken = fault === null ? undefined : BROKEN[fault];
    const words = broken === undefined ? WORDS : brokenWords(broken);
    const now = this.#services.now();
    const full = isFull(look);
    if (moved || this.#full !== true) this.#movedAt = now;
    if (full !== this.#full) {
      const before = this.#full;
      this.#full = full;
      // An earlier control plane may have reported it as full.
      await this.#services.ledger.note(this.#machine, full ? { kind: "disk_full", message: words } : null);
      if (full) await this.#say("warning", words);
      else if (before === true) await this.#say("info", "The machine's disk has free space again.");
    }
    if (!full || now - this.#movedAt < STUCK_MS) return;
    const silent = `produced no output for ${STUCK_MS / MINUTE_MS} minutes`;
    if (broken !== undefined)
      throw new SvcError("machine_unfit", {
        machine: this.#machine,
        why: `its disk takes no bytes (${broken}), and the run ${silent}`,
      });
    const why = `the run waits for free space${fault === "EDQUOT" ? " within its quota" : ""}, and ${silent}`;
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
