// A few megabytes set aside, so that a full disk cannot stop machines from being given back: the reserve is deleted, and what
// must be written fits again. New runs wait until it stands again.

import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";

const RESERVE_BYTES = 4 * 1024 * 1024;
/** What must be free beside the reserve: it must not take the very room that it was given up for. */
const ROOM_BYTES = 4 * 1024 * 1024;

/** With less than this free, the disk counts as full. */
const FULL_BYTES = 256 * 1024;

export class DiskReserve {
  readonly #home: string;
  readonly #file: string;

  constructor(home: string) {
    this.#home = home;
    this.#file = join(home, "reserve");
  }

  get stands(): boolean {
    return existsSync(this.#file);
  }

  /** Gives the space back to whoever must write now. */
  spend(): void {
    rmSync(this.#file, { force: true });
  }

  /** The same where the disk is all but full: somebody is about to end a run, and its runner must write that it ended. */
  spendIfFull(): void {
    if (this.#free < FULL_BYTES) this.spend();
  }

  /** Bytes that may be written now: none where the home is gone, or its disk does not answer. */
  get #free(): number {
    try {
      const { bavail, bsize } = statfsSync(this.#home);
      return bavail * bsize;
    } catch {
      return 0;
    }
  }

  /** True when the space is set aside (again) and there is room beside it: then new runs may be accepted. */
  restore(): boolean {
    if (this.stands) return this.#free >= ROOM_BYTES;
    if (this.#free < RESERVE_BYTES + ROOM_BYTES) return false;
    const temp = `${this.#file}.tmp`;
    let fd: number | null = null;
    try {
      fd = openSync(temp, "w", 0o600);
      // Written, not truncated to size: a sparse file reserves nothing.
      const block = Buffer.alloc(256 * 1024, 0x5a);
      for (let at = 0; at < RESERVE_BYTES;) at += writeSync(fd, block);
      fsyncSync(fd);
      closeSync(fd);
      fd = null;
      renameSync(temp, this.#file);
      return true;
    } catch {
      // No room for the reserve is an answer, not a failure.
      if (fd !== null) closeSync(fd);
      rmSync(temp, { force: true });
      return false;
    }
  }
}
