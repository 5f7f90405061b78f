// rsync over the connection that stands: it starts what it takes for ssh, and that hands its streams to us, by a descriptor of their
// own. It spares a TCP and SSH handshake and a login.

import type { Duplex } from "node:stream";
import type { SshConnection } from "./connection.ts";
import { commandLine } from "../domain/shell-words.ts";

/** Of the socket by which it talks to us, in rsync and in what it starts. */
export const CHANNEL_FD = 3;
const WORDS_MAX = 64 * 1024;
const SAID_MAX = 16_000;

/**
 * For rsync's `-e`: says the words of the command for the machine, each ended by a NUL, then an empty one; then it is the channel, and
 * ends, as ssh does, when the command there has ended. What runs beside reads our input by another name: under its own, a shell gives it
 * an empty one.
 */
export const CHANNEL_SHELL =
  `sh -c 'exec 4<&0; printf "%s\\0" "$@" "" >&${CHANNEL_FD}; ` +
  `cat <&4 >&${CHANNEL_FD} & exec cat <&${CHANNEL_FD} 4<&-' sh`;

export interface Carried {
  /** Of the command on the machine; null where it was not heard of, or there was none. */
  code: number | null;
  stderr: string;
}

/**
 * Starts on the machine what rsync asks for, and carries between the two until it ends there. `inside` is our end of the socket,
 * and is ended with it. Throws what the connection throws.
 */
export async function carry(inside: Duplex, connection: SshConnection, signal: AbortSignal): Promise<Carried> {
  try {
    // The first is the host, which the connection knows.
    const [, ...words] = (await spoken(inside)) ?? [];
    if (words.length === 0) return { code: null, stderr: "" };
    const channel = await connection.open(commandLine(words), signal);
    let stderr = "";
    channel.stderr.setEncoding("utf8").on("data", (text: string) => (stderr = (stderr + text).slice(0, SAID_MAX)));
    channel.pipe(inside);
    inside.pipe(channel);
    // Nobody reads here any more, or writes: then the other side may end, and say how.
    inside.once("close", () => channel.resume().end());
    if (inside.destroyed) channel.resume().end();
    const { code } = await channel.done;
    return { code, stderr };
  } finally {
    inside.end();
  }
}

/** The words of the command; what follows them stays in the stream. Null where rsync ends first, for reasons that it gives itself. */
async function spoken(inside: Duplex): Promise<string[] | null> {
  let bytes = Buffer.alloc(0);
  for (;;) {
    const part = inside.read() as Buffer | null;
    if (part === null) {
      if (inside.readableEnded || inside.destroyed) return null;
      await new Promise<void>((resolve) => {
        for (const event of ["readable", "end", "close"]) inside.once(event, resolve);
      });
      continue;
    }
    bytes = Buffer.concat([bytes, part]);
    const end = bytes.indexOf("\0\0");
    if (end >= 0) {
      if (bytes.length > end + 2) inside.unshift(bytes.subarray(end + 2));
      return bytes.toString("utf8", 0, end).split("\0");
    }
    if (bytes.length > WORDS_MAX) return null;
  }
}
