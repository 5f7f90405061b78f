// Runs rsync over the existing connection and so saves a TCP and SSH handshake and a login. rsync starts a small shell
// command instead of ssh; the command passes its streams to this process through a separate descriptor.

import type { Duplex } from "node:stream";
import type { SshConnection } from "./connection.ts";
import { commandLine } from "../domain/shell-words.ts";
import { firstChars } from "../domain/terminal-text.ts";

/** The descriptor, in rsync and its child, of the socket to this process. */
export const CHANNEL_FD = 3;
const WORDS_MAX = 64 * 1024;
const SAID_MAX = 16_000;

/**
 * For rsync's `-e`: writes the words of the command for the machine, each ended by a NUL, then an empty one; from then
 * on it is the channel, and ends, as ssh does, when the command on the machine has ended. The background process reads
 * stdin through a duplicate: a shell would give it an empty one otherwise.
 */
export const CHANNEL_SHELL =
  `sh -c 'exec 4<&0; printf "%s\\0" "$@" "" >&${CHANNEL_FD}; ` +
  `cat <&4 >&${CHANNEL_FD} & exec cat <&${CHANNEL_FD} 4<&-' sh`;

export interface Carried {
  /** Exit code of the command on the machine; null if it is unknown, or no command ran. */
  code: number | null;
  stderr: string;
}

/**
 * Starts rsync's command on the machine, and copies data between the two until it ends there. `inside` is our end of
 * the socket, and is ended with it. Throws the connection's errors.
 */
export async function carry(inside: Duplex, connection: SshConnection, signal: AbortSignal): Promise<Carried> {
  try {
    // The first word is the host, which the connection knows.
    const [, ...words] = (await spoken(inside)) ?? [];
    if (words.length === 0) return { code: null, stderr: "" };
    const channel = await connection.open(commandLine(words), signal);
    let stderr = "";
    channel.stderr.setEncoding("utf8").on("data", (text: string) => (stderr = firstChars(stderr + text, SAID_MAX)));
    channel.pipe(inside);
    inside.pipe(channel);
    // rsync no longer reads or writes: let the command on the machine end, and report how.
    inside.once("close", () => channel.resume().end());
    if (inside.destroyed) channel.resume().end();
    const { code } = await channel.done;
    return { code, stderr };
  } finally {
    inside.end();
  }
}

/**
 * Reads the words of the command; the bytes after them stay in the stream. Null if rsync ends first; it then reports
 * why.
 */
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
