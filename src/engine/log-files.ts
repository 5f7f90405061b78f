// The files that logs lie in, kept open between two parts: to open one costs more than to write a line.

import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

/** Descriptors held at most while nothing is written: a thousand live runs must not hold a thousand. */
const OPEN_MAX = 256;

interface OpenFile {
  handle: Promise<FileHandle>;
  writers: number;
  /** To be closed by its last writer. */
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

  /** Resolves when `text` stands at `offset` of the job's log and is on the disk. */
  async write(jobId: string, offset: number, text: Buffer): Promise<void> {
    const file = this.#take(jobId);
    try {
      const handle = await file.handle;
      for (let done = 0; done < text.length;)
        done += (await handle.write(text, done, text.length - done, offset + done)).bytesWritten;
      await handle.datasync();
    } catch (e) {
      // Whatever is wrong with this descriptor, the next try gets another.
      this.#drop(jobId, file);
      throw e;
    } finally {
      file.writers--;
      await settle(file);
    }
  }

  /** Once nothing more will be written of this job. */
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
    // What was used last stands last.
    if (file) this.#open.delete(jobId);
    else {
      const path = join(this.#home, "logs", `${jobId}.log`);
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

/** Closes what is to be closed and has no writer. What was written is on the disk: its failure changes nothing. */
async function settle(file: OpenFile): Promise<void> {
  if (!file.leaves || file.writers > 0) return;
  file.leaves = false;
  await file.handle.then((handle) => handle.close()).catch(() => undefined);
}
