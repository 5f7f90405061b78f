import { sleep, type Io } from "./io.ts";
import { storeOfHome, type OpenReads } from "./store.ts";

const REDRAW_MS = 1_000;

/** Calls `draw` each second until the signal is aborted. A home that was never used may get its store meanwhile. */
export async function redrawEachSecond(
  io: Io,
  end: AbortSignal,
  draw: (reads: OpenReads | null) => Promise<void>,
): Promise<void> {
  let reads: OpenReads | null = null;
  try {
    while (!end.aborted) {
      reads ??= await storeOfHome(io);
      await draw(reads);
      await sleep(REDRAW_MS, end);
    }
  } finally {
    reads?.close();
  }
}
