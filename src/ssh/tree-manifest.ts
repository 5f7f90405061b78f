// What of a tree on the machine came from here: a file beside the tree tells, so that only that is ever removed, and so that
// what is there already need not be sent by tar.
//
// M1. A file's line stands in the manifest before the file is sent, and goes only after the file is removed.
// M2. Its digest stands there only once the file has arrived whole.

import { dirname, basename } from "node:path";
import { randomBytes } from "node:crypto";
import { isInside } from "../domain/relative-path.ts";
import { SvcError } from "../errors/index.ts";
import type { Executed, SshConnection } from "./connection.ts";
import { inAnyShell, quote } from "../domain/shell-words.ts";
import { shortLine } from "./words.ts";

export interface Pushed {
  /** SHA-256 in hex; null where it is not known that it arrived whole. */
  digest: string | null;
  size: number;
  executable: boolean;
}

export type Manifest = Map<string, Pushed>;

/** What is known of the tree on the machine before anything is sent. */
export interface TreeState {
  pushed: Manifest;
  /** Plain files that are there now, whoever made them; nothing below a link. Empty where nothing was ever pushed. */
  present: Set<string>;
  /** Those of them that were written to since the last push. */
  written: Set<string>;
}

const TALK_MS = 120_000;

/** Beside the tree, so that the tree holds the project and nothing else. */
export const manifestPath = (to: string): string => `${dirname(to)}/.${basename(to)}.svc-pushed`;

/**
 * Where rsync keeps what it has of a file that was cut off. Within the tree it would look at every name for whether it lies there.
 * Two files of one name may meet here: what is kept only saves bytes, and is compared.
 */
export const partialPath = (to: string): string => `${dirname(to)}/.${basename(to)}.svc-partial`;

/** Makes the folder of the tree, and reads what was pushed to it before; `look` also at what is there now of it. */
export async function readTree(
  connection: SshConnection,
  to: string,
  look: boolean,
  signal: AbortSignal,
): Promise<TreeState> {
  const manifest = quote(manifestPath(to));
  // A login shell may greet, in the same stream: what counts stands between marks that nobody can guess.
  const nonce = randomBytes(12).toString("hex");
  const mark = `printf '%s' ${nonce}`;
  const script = `umask 022
mkdir -p -- ${quote(to)} && cd -- ${quote(to)} && [ -w . ] || exit 71
${mark}
if [ -f ${manifest} ]; then
  cat -- ${manifest}; ${mark}
  ${look ? "find . -type f -print0" : ":"}; ${mark}
  ${look ? `find . -type f -newer ${manifest} -print0` : ":"}; ${mark}
else
  ${mark}; ${mark}; ${mark}
fi`;
  const { stdout } = await talk(connection, script, undefined, signal);
  const parts = split(stdout, nonce);
  if (parts.length !== 5)
    throw new SvcError("sync_failed", { machine: connection.machine, why: "its shell cut an answer short" });
  const [, pushed = Buffer.alloc(0), present = Buffer.alloc(0), written = Buffer.alloc(0)] = parts;
  return { pushed: parse(pushed), present: names(present), written: names(written) };
}

/** Replaces the manifest in one go. */
export async function writeManifest(
  connection: SshConnection,
  to: string,
  manifest: Manifest,
  signal: AbortSignal,
): Promise<void> {
  const path = quote(manifestPath(to));
  const lines = [...manifest].map(([name, p]) => `${p.digest ?? "-"} ${p.size} ${p.executable ? "x" : "-"} ${name}\0`);
  const bytes = Buffer.from(lines.join(""));
  // A connection that is cut ends stdin, too: only what came whole is taken.
  const script = `umask 077
t=${path}.$$
trap 'rm -f -- "$t"' EXIT
cat >"$t" && [ "$(wc -c <"$t")" -eq ${bytes.length} ] && mv -f -- "$t" ${path} || exit 72`;
  await talk(connection, script, bytes, signal);
}

/** Removes files below `to`, and the folders that become empty by it. */
export async function removeFiles(
  connection: SshConnection,
  to: string,
  files: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  if (files.length === 0) return;
  const folders = [...new Set(files.flatMap(parentsOf))].toSorted((a, b) => b.length - a.length);
  const words = (all: readonly string[]): Buffer => Buffer.from(all.map((name) => `./${name}\0`).join(""));
  const inTree = `cd -- ${quote(to)} || exit 71`;
  await talk(connection, `${inTree}\nxargs -0 rm -f -- || exit 72`, words(files), signal);
  // Folders that hold anything else stay.
  if (folders.length > 0) {
    await talk(connection, `${inTree}\nxargs -0 rmdir -- 2>/dev/null\nexit 0`, words(folders), signal);
  }
}

/** `a/b/c` lies in `a/b` and `a`. */
export function parentsOf(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join("/"));
}

/** A failure that has to do with the machine's disk, by what the machine said of it; null where it is something else. */
export function diskFailure(machine: string, said: string): SvcError | null {
  if (/No space left on device|ENOSPC|Disk quota exceeded|Wrote only \d+ of \d+ bytes/i.test(said))
    return new SvcError("machine_disk_full", { machine, why: "the project does not fit on it" });
  if (/Read-only file system/i.test(said))
    return new SvcError("sync_failed", { machine, why: "the disk of the machine is read-only" });
  return null;
}

async function talk(
  connection: SshConnection,
  script: string,
  stdin: Buffer | undefined,
  signal: AbortSignal,
): Promise<Executed> {
  const done = await connection.exec(inAnyShell(script), { signal, timeoutMs: TALK_MS, ...(stdin ? { stdin } : {}) });
  if (done.code === 0) return done;
  const said = done.stderr.toString("utf8");
  const why = `a shell there ended with ${done.code ?? done.signal}: ${shortLine(said)}`;
  throw diskFailure(connection.machine, said) ?? new SvcError("sync_failed", { machine: connection.machine, why });
}

function split(bytes: Buffer, mark: string): Buffer[] {
  const parts: Buffer[] = [];
  let from = 0;
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, from)) {
    parts.push(bytes.subarray(from, at));
    from = at + mark.length;
  }
  return [...parts, bytes.subarray(from)];
}

function names(bytes: Buffer): Set<string> {
  const all = bytes.toString("utf8").split("\0").filter(Boolean);
  return new Set(all.map((name) => name.replace(/^\.\//, "")));
}

/** Lines that are none are left out: the machine can at most make us send again, or remove less. */
function parse(bytes: Buffer): Manifest {
  const manifest: Manifest = new Map();
  for (const line of bytes.toString("utf8").split("\0")) {
    const found = /^([0-9a-f]{64}|-) (\d{1,15}) ([x-]) ([^]+)$/.exec(line);
    const name = found?.[4];
    if (!found || name === undefined || !isInside(name)) continue;
    const digest = found[1] === "-" || found[1] === undefined ? null : found[1];
    manifest.set(name, { digest, size: Number(found[2]), executable: found[3] === "x" });
  }
  return manifest;
}
