// Sends large files to a machine without rsync, each one in pieces through the agent: a lost connection costs one
// piece. The part that has arrived is kept under a name that encodes the file, its size and its time.

import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { AgentRefusal } from "./agent-client.ts";
import { askAgent, diskRefusal, type AskedMachine } from "./ask-agent.ts";
import { shortLine } from "./words.ts";
import { SvcError, systemCode } from "../errors/index.ts";
import type { TreePush, TreePushed } from "../providers/host.ts";

/** Files from this size on are sent in pieces; smaller ones are sent together. */
const PIECEWISE_BYTES = 8 * 1024 * 1024;
const PIECE_BYTES = 2 * 1024 * 1024;
/** Timeout of one piece over a slow tunnel. */
const PIECE_MS = 180_000;

const Have = z.object({ have: z.int().min(0), whole: z.boolean() });

const isLarge = ({ size }: TreePush["files"][number]): boolean => size >= PIECEWISE_BYTES;

/** Whether the tree asks for it, and has large files. */
export const goesInPieces = ({ inPieces, files }: TreePush): boolean => inPieces === true && files.some(isLarge);

/** Sends the large files in pieces, then the rest together, by `pushRest`. Throws the errors of either way. */
export async function pushInPieces(
  machine: AskedMachine,
  tree: TreePush,
  pushRest: (rest: TreePush) => Promise<TreePushed>,
  signal: AbortSignal,
): Promise<TreePushed> {
  const [large, small] = [tree.files.filter(isLarge), tree.files.filter((file) => !isLarge(file))];
  const begin = performance.now();
  let [files, bytes, sentBytes] = [0, 0, 0];
  const tell = (): void =>
    tree.progress?.({
      files,
      bytes,
      bytes_per_second: Math.round((bytes / Math.max(1, performance.now() - begin)) * 1000),
    });
  for (const file of large) {
    const arrived = (more: number): void => {
      bytes += more;
      tell();
    };
    sentBytes += await putInPieces(machine, tree, file, arrived, signal);
    files += 1;
  }
  const before = { files, bytes };
  const progress: TreePush["progress"] = (done) => {
    [files, bytes] = [before.files + done.files, before.bytes + done.bytes];
    tell();
  };
  const rest = await pushRest({ ...tree, files: small, progress });
  const sent_bytes = rest.sent_bytes === null ? null : rest.sent_bytes + sentBytes;
  return {
    files: tree.files.length,
    bytes: rest.bytes + before.bytes,
    sent_bytes,
    how: `in pieces, and ${rest.how}`,
  };
}

/**
 * Resolves with the number of bytes sent. Throws `sync_failed`, `disk_full`, and the errors of reaching the machine.
 */
async function putInPieces(
  { name: machine, agent }: AskedMachine,
  tree: Pick<TreePush, "from" | "to" | "followLinks">,
  file: TreePush["files"][number],
  sent: (bytes: number) => void,
  signal: AbortSignal,
): Promise<number> {
  const failed = (why: string, cause?: unknown) => new SvcError("sync_failed", { machine, why }, { cause });
  const links = tree.followLinks ? 0 : constants.O_NOFOLLOW;
  const from = join(tree.from, file.path);
  const source = await open(from, constants.O_RDONLY | constants.O_NONBLOCK | links).catch((cause: unknown) => {
    throw failed(`${shortLine(file.path)} cannot be read (${systemCode(cause)})`, cause);
  });
  try {
    const stats = await source.stat();
    if (!stats.isFile() || stats.size !== file.size)
      throw failed(`${shortLine(file.path)} has changed its size while it was sent`);
    const path = `${tree.to}/${file.path}`;
    const args = { path, size: file.size, mtime: Math.floor(file.mtimeMs ?? stats.mtimeMs) };
    const ask = async (offset: number, body?: Buffer) => {
      const options = { signal, timeoutMs: PIECE_MS, ...(body ? { body } : {}) };
      const { value } = await askAgent(agent, "put", { ...args, offset }, Have, options).catch((thrown: unknown) => {
        if (!(thrown instanceof AgentRefusal)) throw thrown;
        const disk = diskRefusal(machine, thrown, "the project does not fit on it");
        throw disk ?? failed(`${shortLine(file.path)} cannot be written there (${thrown.message})`, thrown);
      });
      return value;
    };
    let { have, whole } = await ask(0);
    sent(have);
    let travelled = 0;
    while (!whole) {
      if (have >= file.size) throw failed(`of ${shortLine(file.path)} the machine has more than there is`);
      const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, file.size - have));
      const { bytesRead } = await source.read(piece, 0, piece.length, have);
      if (bytesRead === 0) throw failed(`${shortLine(file.path)} became shorter while it was sent`);
      const before = have;
      ({ have, whole } = await ask(have, piece.subarray(0, bytesRead)));
      travelled += bytesRead;
      sent(have - before);
    }
    return travelled;
  } finally {
    await source.close();
  }
}
