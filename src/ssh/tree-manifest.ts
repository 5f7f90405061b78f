// Records which files of a tree on the machine were sent by svc, in a file next to the tree. Only these files are ever
// removed, and tar does not send them again.
//
// M1. A file's line is written to the manifest before the file is sent, and is removed only after the file is removed.
// M2. Its digest is written only once the file has arrived completely.

import { dirname, basename } from "node:path";
import { randomBytes } from "node:crypto";
import { isInside } from "../domain/relative-path.ts";
import { SvcError } from "../errors/index.ts";
import type { Executed, SshConnection } from "./connection.ts";
import { inAnyShell, quote } from "../domain/shell-words.ts";
import { FILE_LIMIT, howEnded, READ_ONLY, shortLine } from "./words.ts";

export interface Pushed {
  /** SHA-256 in hex; null if it may not have arrived completely. */
  digest: string | null;
  size: number;
  executable: boolean;
}

export type Manifest = Map<string, Pushed>;

/** The known state of the tree on the machine before anything is sent. */
export interface TreeState {
  pushed: Manifest;
  /** Plain files that exist now, whoever made them; nothing below a symlink. Empty if nothing was ever pushed. */
  present: Set<string>;
  /** Those that were modified since the last push. */
  written: Set<string>;
}

const TALK_MS = 120_000;

/**
 * The beginning of each script: a file that grows too large is an error with a message, not the end of its writer by SIGXFSZ (25), and
 * messages are in English, which `diskFailure` knows, in each locale.
 */
export const PLAINLY = "trap '' 25; LANGUAGE=C; export LANGUAGE; ";

/** Next to the tree, so that the tree holds the project and nothing else. */
export const manifestPath = (to: string): string => `${dirname(to)}/.${basename(to)}.svc-pushed`;

/** The exit code of a script that cannot make or enter the folder of the tree. */
const NO_FOLDER = 71;

/**
 * The folder for rsync's partial files. Inside the tree, rsync would check every name against this folder. Two files of
 * one name may meet here: partial data only saves bytes, and is compared.
 */
export const partialPath = (to: string): string => `${dirname(to)}/.${basename(to)}.svc-partial`;

/** Makes the folder of the tree, and reads the record of earlier pushes; with `look` also its current files. */
export async function readTree(
  connection: SshConnection,
  to: string,
  look: boolean,
  signal: AbortSignal,
): Promise<TreeState> {
  const manifest = quote(manifestPath(to));
  // A login shell may print a greeting in the same stream, so the answer is between unguessable marks.
  const nonce = randomBytes(12).toString("hex");
  const mark = `printf '%s' ${nonce}`;
  const script = `umask 022
mkdir -p -- ${quote(to)} && cd -- ${quote(to)} && [ -w . ] || exit ${NO_FOLDER}
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

/** Replaces the manifest atomically. */
export async function writeTreeManifest(
  connection: SshConnection,
  to: string,
  manifest: Manifest,
  signal: AbortSignal,
): Promise<void> {
  const path = quote(manifestPath(to));
  const lines = [...manifest].map(([name, p]) => `${p.digest ?? "-"} ${p.size} ${p.executable ? "x" : "-"} ${name}\0`);
  const bytes = Buffer.from(lines.join(""));
  // A cut connection also ends stdin, so only a complete manifest is accepted.
  const script = `umask 077
t=${path}.$$
trap 'rm -f -- "$t"' EXIT
cat >"$t" && [ "$(wc -c <"$t")" -eq ${bytes.length} ] && mv -f -- "$t" ${path} || exit 72`;
  await talk(connection, script, bytes, signal);
}

/** Removes files below `to`, and the folders that become empty. */
export async function removeFiles(
  connection: SshConnection,
  to: string,
  files: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  if (files.length === 0) return;
  const folders = [...new Set(files.flatMap(parentsOf))].toSorted((a, b) => b.length - a.length);
  const words = (all: readonly string[]): Buffer => Buffer.from(all.map((name) => `./${name}\0`).join(""));
  const inTree = `cd -- ${quote(to)} || exit ${NO_FOLDER}`;
  await talk(connection, `${inTree}\nxargs -0 rm -f -- || exit 72`, words(files), signal);
  // Folders that hold anything else stay.
  if (folders.length > 0) {
    await talk(connection, `${inTree}\nxargs -0 rmdir -- 2>/dev/null\nexit 0`, words(folders), signal);
  }
}

/** `a/b/c` gives `a/b` and `a`. */
export function parentsOf(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join("/"));
}

/** The error for a failure of the machine's disk, recognised by the machine's message; null for other failures. */
export function diskFailure(machine: string, said: string): SvcError | null {
  if (/No space left on device|ENOSPC|Disk quota exceeded|Wrote only \d+ of \d+ bytes/i.test(said))
    return new SvcError("machine_disk_full", { machine, why: "the project does not fit on it" });
  if (/Read-only file system/i.test(said)) return new SvcError("machine_unfit", { machine, why: READ_ONLY });
  if (/File too large|File ?size limit exceeded|EFBIG/i.test(said))
    return new SvcError("machine_unfit", { machine, why: FILE_LIMIT });
  return null;
}

async function talk(
  connection: SshConnection,
  script: string,
  stdin: Buffer | undefined,
  signal: AbortSignal,
): Promise<Executed> {
  const done = await connection.exec(inAnyShell(PLAINLY + script), {
    signal,
    timeoutMs: TALK_MS,
    ...(stdin ? { stdin } : {}),
  });
  if (done.code === 0) return done;
  const said = done.stderr.toString("utf8");
  const { machine } = connection;
  const disk = diskFailure(machine, said);
  if (disk) throw disk;
  // Another attempt would not change that, and each minute costs money.
  if (done.code === NO_FOLDER && (said === "" || /Permission denied|Not a directory|not permitted/i.test(said)))
    throw new SvcError("machine_unfit", {
      machine,
      why: `svc cannot write into the home of the user who logs in${said === "" ? "" : ` (${shortLine(said)})`}`,
    });
  throw new SvcError("sync_failed", { machine, why: `a shell there ended with ${howEnded(done)}` });
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

/** Malformed lines are skipped: the machine can at most make svc send again, or remove less. */
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
