// Sends a tree with the rsync of both sides. `tree.ts` calls it for large trees and falls back to tar when rsync is
// unfit.

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { started } from "../platform/started.ts";
import { SvcError } from "../errors/index.ts";
import { firstChars, lastChars } from "../domain/terminal-text.ts";
import { childEnvironment } from "./child-environment.ts";
import { carry, CHANNEL_FD, CHANNEL_SHELL, type Carried } from "./rsync-channel.ts";
import { fileLimitMet } from "./file-limit.ts";
import { HOST_WORD, sshForRsync } from "./system-ssh.ts";
import type { Report, TreeOptions } from "./tree-options.ts";
import { diskFailure, partialPath } from "./tree-manifest.ts";
import { shortLine } from "./words.ts";

/** Why rsync turned out to be unusable with this machine. */
export type RsyncUnfit =
  "the machine's rsync does not work" | "the machine's shell prints text at login, which rsync cannot handle";

const KILL_AFTER_MS = 2_000;
const SAID_MAX = 16_000;
/** The messages of sh, bash, zsh and fish. */
const NOT_FOUND = /rsync: (?:\S+ )?(?:command )?not found|command not found: rsync|Unknown command.*rsync/;
/** rsync's exit code for a file that could not be written; its words about it may be lost. */
const FILE_ERROR = 11;
/** Exit codes of rsync and ssh for a link that could not be made, or was lost. */
const UNREACHABLE = new Set([10, 12, 30, 35, 255]);

let usable: Promise<boolean> | null = null;

/**
 * Whether this computer has a usable rsync: Apple's own speaks another dialect. A negative result is checked again next
 * time.
 */
export async function localRsync(): Promise<boolean> {
  usable ??= tryRsync();
  const found = await usable;
  if (!found) usable = null;
  return found;
}

function tryRsync(): Promise<boolean> {
  return new Promise((resolve) => {
    execFile("rsync", ["--version"], { timeout: 5_000, env: childEnvironment() }, (e, stdout) => {
      const version = /^rsync\s+version v?(\d+)\.(\d+)/.exec(stdout);
      const [major, minor] = [Number(version?.[1] ?? 0), Number(version?.[2] ?? 0)];
      resolve(!e && (major > 3 || (major === 3 && minor >= 1)));
    });
  });
}

/** Resolves to the number of bytes sent to the machine, or to the reason why tar must do it. */
export async function pushByRsync(options: TreeOptions & { report: Report }): Promise<number | RsyncUnfit> {
  const { tree, machine, endpoint, signal } = options;
  signal.throwIfAborted();
  const { code, ended, stdout, stderr } = await run(options);
  if (code === 0) {
    // rsync skips anything that is not a plain file without reporting a failure.
    const seen = Number(/Number of files: \d+ \(reg: (\d+)/.exec(stdout)?.[1] ?? 0);
    if (seen === new Set(tree.files.map(({ path }) => path)).size) {
      return Number(/Total bytes sent: (\d+)/.exec(stdout)?.[1] ?? 0);
    }
    const why = `only ${seen} of ${tree.files.length} files could be read here`;
    throw new SvcError("sync_failed", { machine, why: `${why} (${shortLine(stderr || lastChars(stdout, SAID_MAX))})` });
  }
  signal.throwIfAborted();

  // The message of ssh or of the machine explains more than rsync's summary of it.
  const own =
    /^rsync(?: error)?: .*(?:connection unexpectedly closed|error in rsync protocol|unexplained error|some files\/attrs).*$/gm;
  const said = shortLine(stderr.replaceAll(own, ""));
  const why = said === "" ? `rsync ended with ${code ?? ended}` : said;
  if (/REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed/.test(stderr)) {
    throw new SvcError("host_key_changed", { machine });
  }
  if (/Permission denied \((publickey|keyboard|password|gssapi|hostbased)/.test(stderr)) {
    throw new SvcError("ssh_refused", { machine, user: endpoint.user, why });
  }
  const disk = (code === FILE_ERROR ? await fileLimitMet(options) : null) ?? diskFailure(machine, stderr);
  if (disk) throw disk;
  if (code === 2 || /is your shell clean/.test(stderr))
    return "the machine's shell prints text at login, which rsync cannot handle";
  if (code === 127 || code === 126 || NOT_FOUND.test(stderr)) {
    return "the machine's rsync does not work";
  }
  if (UNREACHABLE.has(code ?? 0)) throw new SvcError("ssh_unreachable", { machine, why });
  const what =
    code === FILE_ERROR
      ? "a file could not be written"
      : code === 23 || code === 24
        ? "not every file could be sent"
        : null;
  throw new SvcError("sync_failed", { machine, why: `${what ?? `rsync ended with ${code ?? ended}`} (${why})` });
}

/**
 * The last progress line of the form "   1234  56%   1.2MB/s    0:00:01 (xfr#3, to-chk=4/10)", which rsync rewrites on
 * one line. The machine's own text may look alike, so every repetition is bounded: otherwise endless digits would be
 * tried from each position.
 */
export function progressIn(text: string): { bytes: number | null; files: number | null } {
  const last = (pattern: RegExp): number | null => {
    const found = [...text.matchAll(pattern)].at(-1)?.[1];
    return found === undefined ? null : Number(found);
  };
  return { bytes: last(/(\d{1,15})\s{1,9}\d{1,3}%/g), files: last(/xfr#(\d{1,9})/g) };
}

interface Ended {
  code: number | null;
  ended: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

async function run(options: TreeOptions & { report: Report }): Promise<Ended> {
  const { tree, machine, signal, report } = options;
  const child = await started(
    spawn("rsync", words(options), {
      stdio: ["pipe", "pipe", "pipe", ...(options.rsync === "standing" ? (["pipe"] as const) : [])],
      env: childEnvironment(),
      // A process group of its own, so that its ssh ends with it.
      detached: true,
    }),
  ).catch((cause: Error) => {
    throw new SvcError("sync_failed", { machine, why: `rsync cannot be started (${cause.message})` }, { cause });
  });
  const kill = (name: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name);
    } catch {
      // It ended meanwhile.
    }
  };
  let hard: NodeJS.Timeout | undefined;
  const abort = (): void => {
    kill("SIGTERM");
    hard = setTimeout(() => kill("SIGKILL"), KILL_AFTER_MS);
  };
  const ending = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  child.stdin.on("error", () => {});
  // Without `./` a name that begins with `#` or `;` would be read as a comment.
  child.stdin.end(tree.whole ? "" : tree.files.map(({ path }) => `./${path}\0`).join(""));
  let stdout = "";
  let stderr = "";
  let files = 0;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout = (stdout + text).slice(-SAID_MAX - 1);
    const said = progressIn(text);
    files = said.files ?? files;
    if (said.bytes !== null) report({ files: Math.min(files, tree.files.length), bytes: said.bytes });
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr = firstChars(stderr + text, SAID_MAX)));
  const channel = options.rsync === "standing" ? channelOf(child, options, () => kill("SIGTERM")) : null;
  const [code, ended] = await ending;
  clearTimeout(hard);
  signal.removeEventListener("abort", abort);
  const there = code === 0 ? null : await channel;
  return { code: there?.code === 127 ? 127 : code, ended, stdout, stderr: `${there?.stderr ?? ""}${stderr}` };
}

/**
 * Connects rsync to the existing connection. Resolves to how the command ended on the machine, null if rsync ended
 * before that was known; rejects with why the machine cannot be reached.
 */
function channelOf(child: ChildProcess, options: TreeOptions, kill: () => void): Promise<Carried | null> {
  const inside = child.stdio[CHANNEL_FD] as Duplex;
  inside.on("error", () => undefined);
  const over = new AbortController();
  const carried = carry(inside, options.connection, AbortSignal.any([options.signal, over.signal]));
  // Without a channel rsync would wait for ever.
  carried.catch(kill);
  const end = (): void => {
    over.abort(new SvcError("ssh_unreachable", { machine: options.machine, why: "rsync ended here" }));
    inside.destroy();
  };
  // The command on the machine is about to end, too, and may still print a message.
  child.once("exit", () => setTimeout(end, KILL_AFTER_MS).unref());
  const outcome = carried.catch((thrown: unknown) => {
    if (thrown === over.signal.reason) return null;
    throw thrown;
  });
  outcome.catch(() => undefined);
  return outcome;
}

function words({ tree, machine, endpoint, key, pins, rsync }: TreeOptions): string[] {
  return [
    "-t",
    "--omit-dir-times",
    "--perms",
    // Long runs of zeros become holes on the machine.
    "--sparse",
    // Execute permission for the user becomes execute permission there; nothing else of the mode is copied.
    "--chmod=Du=rwx,Dgo=rx,Fu=rwX,Fgo=rX",
    tree.followLinks ? "--copy-links" : "--no-links",
    "--no-devices",
    "--no-specials",
    // A list of names is slower. Finding all files before the first is sent is cheaper, and gives the progress a total.
    ...(tree.whole ? ["--recursive", "--no-inc-recursive"] : ["--files-from=-", "--from0", "--no-recursive"]),
    // The machine's shell sees no path.
    "-s",
    `--partial-dir=${partialPath(tree.to)}`,
    "--timeout=60",
    "--no-human-readable",
    "--info=progress2,stats2",
    // The replacement for ssh cannot wait on a pipe in non-blocking mode.
    ...(rsync === "standing"
      ? ["--blocking-io", "-e", CHANNEL_SHELL]
      : ["-e", sshForRsync({ machine, endpoint, key, pins })]),
    "--",
    `${tree.from.replace(/\/*$/, "")}/`,
    `${HOST_WORD}:${tree.to}/`,
  ];
}
