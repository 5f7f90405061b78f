// Keeps the files of logs open between two parts: opening one costs more than writing a line.

import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { homeLayout } from "../platform/home-layout.ts";

/** Maximum of open descriptors while nothing is written: a thousand live runs must not hold a thousand. */
const OPEN_MAX = 256;

interface OpenFile {
  handle: Promise<FileHandle>;
  writers: number;
  /** Its last writer must close it. */
  leaves: boolean;
}

export class LogFiles {
  readonly #home: string;
  readonly #openMax: number;
  /** The least recently used first. */
  readonly #open = new Map<string, OpenFile>();

  constructor(home: string, openMax = OPEN_MAX) {
    this.#home = home;
    this.#openMax = openMax;
  }

  /** Resolves when `text` is at `offset` of the job's log and synced to the disk. */
  async write(jobId: string, offset: number, text: Buffer): Promise<void> {
    const file = this.#take(jobId);
    try {
      const handle = await file.handle;
      for (let done = 0; done < text.length;)
        done += (await handle.write(text, done, text.length - done, offset + done)).bytesWritten;
      await handle.datasync();
    } catch (e) {
      // The next try gets another descriptor, for any failure of this one.
      this.#drop(jobId, file);
      throw e;
    } finally {
      file.writers--;
      await settle(file);
    }
  }

  /** The byte at `offset` of the job's log; undefined beyond its end. */
  async byteAt(jobId: string, offset: number): Promise<number | undefined> {
    const file = this.#take(jobId);
    try {
      const handle = await file.handle;
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(1), 0, 1, offset);
      return bytesRead === 0 ? undefined : buffer[0];
    } finally {
      file.writers--;
      await settle(file);
    }
  }

  /** Call it once nothing more will be written for this job. */
  async close(jobId: string): Promise<void> {
    const file = this.#open.get(jobId);
    if (file === undefined) return;
    this.#drop(jobId, file);
    await settle(file);
  }

  async closeAll(): Promise<void> {
    await Promise.all([...this.#open.keys()].map((jobId) => this.close(jobId)));
  }

  #take(jobId: string): OpenFile {
    let file = this.#open.get(jobId);
    // Moves the most recently used file to the end.
    if (file) this.#open.delete(jobId);
    else {
      const path = homeLayout.log(this.#home, jobId);
      file = { handle: open(path, constants.O_RDWR | constants.O_CREAT, 0o600), writers: 0, leaves: false };
    }
    this.#open.set(jobId, file);
    file.writers++;
    this.#makeRoom();
    return file;
  }

  #makeRoom(): void {
    for (const [jobId, file] of this.#open) {
      if (this.#open.size <= this.#openMax) return;
      if (file.writers > 0) continue;
      this.#drop(jobId, file);
      void settle(file);
    }
  }

  #drop(jobId: string, file: OpenFile): void {
    if (this.#open.get(jobId) === file) this.#open.delete(jobId);
    file.leaves = true;
  }
}

/** Closes a file that should be closed and has no writer. Its bytes are on the disk: a failure changes nothing. */
async function settle(file: OpenFile): Promise<void> {
  if (!file.leaves || file.writers > 0) return;
  file.leaves = false;
  await file.handle.then((handle) => handle.close()).catch(() => undefined);
}
