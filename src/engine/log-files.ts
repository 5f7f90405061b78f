// Keeps the files of logs open between two parts: opening one costs more than writing a line.
//
// A file that was removed, replaced or cut short since the last part is noticed before the next one (L5 of run-log-writer.ts).

import { constants } from "node:fs";
import { dirname } from "node:path";
import { mkdir, open, stat, type FileHandle } from "node:fs/promises";
import { textOfLost, wordBytesOf, type LostPart } from "../domain/lost-log.ts";
import { isMissing, nullIfMissing } from "../errors/index.ts";
import { homeLayout } from "../platform/home-layout.ts";

/** Maximum of open descriptors while nothing is written: a thousand live runs must not hold a thousand. */
const OPEN_MAX = 256;

interface OpenFile {
  handle: Promise<FileHandle>;
  /** Identifies the file, to notice that its name leads to another one. */
  identity: Promise<string>;
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

  /**
   * Resolves when `text` is at `offset` of the job's log and synced to the disk, with the part before it that the file
   * had and has lost; null if it has lost none.
   */
  async write(jobId: string, offset: number, text: Buffer): Promise<LostPart | null> {
    const file = this.#take(jobId);
    try {
      const handle = await file.handle;
      const now = await stat(homeLayout.log(this.#home, jobId)).catch(nullIfMissing);
      if (now !== null && identityOf(now) === (await file.identity)) {
        const lost = now.size < offset ? { from: now.size, to: offset } : null;
        if (lost) await nameLost(handle, lost);
        await writeAll(handle, text, offset);
        await handle.datasync();
        return lost;
      }
      this.#drop(jobId, file);
    } catch (e) {
      // The next try gets another descriptor, for any failure of this one.
      this.#drop(jobId, file);
      throw e;
    } finally {
      file.writers--;
      await settle(file);
    }
    return this.write(jobId, offset, text);
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
      const handle = openLog(homeLayout.log(this.#home, jobId));
      const identity = handle.then(async (opened) => identityOf(await opened.stat()));
      identity.catch(() => undefined); // `handle` tells it
      file = { handle, identity, writers: 0, leaves: false };
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

async function openLog(path: string): Promise<FileHandle> {
  const opened = (): Promise<FileHandle> => open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    return await opened();
  } catch (e) {
    if (!isMissing(e)) throw e;
    await mkdir(dirname(path), { mode: 0o700 });
    return opened();
  }
}

const identityOf = ({ dev, ino }: { dev: number; ino: number }): string => `${dev} ${ino}`;

async function writeAll(handle: FileHandle, text: Buffer, offset: number): Promise<void> {
  for (let done = 0; done < text.length;)
    done += (await handle.write(text, done, text.length - done, offset + done)).bytesWritten;
}

/** The NULs of a large part stay a hole in the file. After a crash between the two writes it is still too short. */
async function nameLost(handle: FileHandle, lost: LostPart): Promise<void> {
  await writeAll(handle, textOfLost(lost, lost.from, wordBytesOf(lost)), lost.from);
  await writeAll(handle, textOfLost(lost, lost.to - 1, 1), lost.to - 1);
}

/** Closes a file that should be closed and has no writer. Its bytes are on the disk: a failure changes nothing. */
async function settle(file: OpenFile): Promise<void> {
  if (!file.leaves || file.writers > 0) return;
  file.leaves = false;
  await file.handle.then((handle) => handle.close()).catch(() => undefined);
}
