// The screen of `svc top`: the alternate screen of the terminal, and the keys that end it.

import type { Io } from "../../io.ts";

/** The alternate screen without a cursor, so that the terminal looks as before at the end. */
const ENTER = "\u001b[?1049h\u001b[?25l";
const LEAVE = "\u001b[?25h\u001b[?1049l";
const CLEAR = "\u001b[H\u001b[2J";
const QUIT = /[qQ]|^\u001b$/;

interface Screen {
  /** Aborted by `q`, Esc or Ctrl-C. */
  end: AbortSignal;
  /** Replaces everything; rows below the last line of the terminal are left out. */
  draw(head: string, rows: string): Promise<void>;
}

/** Shows the screen while `use` runs. The terminal is then as before, whatever happened. */
export async function onScreen(io: Io, use: (screen: Screen) => Promise<void>): Promise<void> {
  const quit = new AbortController();
  const restore = onKeys((keys) => QUIT.test(keys) && quit.abort());
  await io.out(ENTER);
  try {
    await use({
      end: AbortSignal.any([quit.signal, io.interrupted]),
      draw(head, rows) {
        const room = Math.max(5, (process.stdout.rows || 24) - 3);
        return io.out(`${CLEAR}${head}\n\n${rows.split("\n").slice(0, room).join("\n")}`);
      },
    });
  } finally {
    restore();
    await io.out(LEAVE);
  }
}

/** Calls the listener with the keys that are pressed, and returns the function that gives the terminal back. */
function onKeys(listener: (keys: string) => unknown): () => void {
  const { stdin } = process;
  if (!stdin.isTTY) return () => {};
  const heard = (keys: Buffer): void => {
    // In raw mode, Ctrl-C is an ordinary key.
    if (keys.includes(3)) process.kill(process.pid, "SIGINT");
    listener(keys.toString("latin1"));
  };
  stdin.setRawMode(true).on("data", heard).resume();
  return () => {
    stdin.off("data", heard).setRawMode(false).pause();
  };
}
