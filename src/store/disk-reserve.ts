// Reserves a few megabytes, so that a full disk cannot prevent the release of machines: the reserve is deleted, and
// necessary writes fit again. New runs wait until it is restored.

import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statfsSync, writeSync } from "node:fs";
import { homeLayout } from "../platform/home-layout.ts";

const RESERVE_BYTES = 4 * 1024 * 1024;
/** Space that must be free in addition to the reserve: it must not take the space for which it was given up. */
const ROOM_BYTES = 4 * 1024 * 1024;

/** With less than this free, the disk counts as full. */
const FULL_BYTES = 256 * 1024;

export class DiskReserve {
  readonly #home: string;
  readonly #file: string;

  constructor(home: string) {
    this.#home = home;
    this.#file = homeLayout.reserve(home);
  }

  get stands(): boolean {
    return existsSync(this.#file);
  }

  /** Deletes the reserve to make room for necessary writes. */
  spend(): void {
    rmSync(this.#file, { force: true });
  }

  /** Like `spend`, if the disk is almost full: a run is about to be ended, and its runner must record the end. */
  spendIfFull(): void {
    if (this.#free < FULL_BYTES) this.spend();
  }

  /** Bytes that may be written now: 0 if the home is gone, or its disk does not answer. */
  get #free(): number {
    try {
      const { bavail, bsize } = statfsSync(this.#home);
      return bavail * bsize;
    } catch {
      return 0;
    }
  }

  /** True when the space is reserved (again) and there is room in addition: then new runs may be accepted. */
  restore(): boolean {
    if (this.stands) return this.#free >= ROOM_BYTES;
    if (this.#free < RESERVE_BYTES + ROOM_BYTES) return false;
    const temp = `${this.#file}.tmp`;
    let fd: number | null = null;
    try {
      fd = openSync(temp, "w", 0o600);
      // Written, not truncated to size: a sparse file reserves no space.
      const block = Buffer.alloc(256 * 1024, 0x5a);
      for (let at = 0; at < RESERVE_BYTES;) at += writeSync(fd, block);
      fsyncSync(fd);
      closeSync(fd);
      fd = null;
      renameSync(temp, this.#file);
      return true;
    } catch {
      // Returns false if the reserve does not fit; that is not a failure.
      if (fd !== null) closeSync(fd);
      rmSync(temp, { force: true });
      return false;
    }
  }
}
