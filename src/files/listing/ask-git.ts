// Asks the git binary which files of a directory it tracks, which it does not, and which it ignores.
//
// A1. Git runs nothing that the repository names: no hook, no file watcher, no filter, no pager, no fetch. `ls-files` and
//     `check-ignore` need none of them, and the options below turn off what a configuration could start.
// A2. So the owner of the repository does not matter: nothing of it is executed, and `safe.directory` makes git read it
//     for any owner. A git before 2.38 ignores that setting on its command line and refuses; then our own walk answers.
// A3. Variables of git in our own environment (GIT_DIR, GIT_INDEX_FILE and the like) could point elsewhere and are dropped; so are keys.
// A4. An answer that git itself calls incomplete is not used: with an unreadable rule file, ignored files would be
//     sent.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { withoutSecrets } from "../../domain/secret-names.ts";
import { started } from "../../platform/started.ts";
import { SvcError, systemCode } from "../../errors/index.ts";

/** Far more than git needs for any project within the bounds. */
const GIT_LIST_MS = 60_000;
const STDERR_BYTES_MAX = 64 * 1024;
/** Paths in one question. */
const ASKED_AT_ONCE = 200;
const UNTRACKED = "?".charCodeAt(0);

export const QUIET_GIT = [
  "--no-pager",
  ...["core.fsmonitor=false", "core.hooksPath=/dev/null", "submodule.recurse=false"].flatMap((set) => ["-c", set]),
];

/** The environment in which git is started (A1, A3). */
export function gitEnvironment(): Record<string, string> {
  const seen = Object.entries(withoutSecrets(process.env)).filter(([name]) => !name.startsWith("GIT_"));
  return {
    ...Object.fromEntries(seen),
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_LAZY_FETCH: "1",
    // For versions that do not know the line above: no protocol is allowed, so nothing can be fetched.
    GIT_ALLOW_PROTOCOL: "none",
    GIT_TERMINAL_PROMPT: "0",
    // The project may be mounted into its repository.
    GIT_DISCOVERY_ACROSS_FILESYSTEM: "1",
    LC_ALL: "C",
  };
}

/** An entry of git's index that is a separate repository (a submodule). */
export interface Gitlink {
  path: string;
  /** The sparse checkout excludes it from the directory. */
  skipped: boolean;
}

/** An entry of git's index. */
export interface Tracked extends Gitlink {
  gitlink: boolean;
}

/** Git gave no usable answer; `why` holds git's own message. */
export type GitRefusal =
  | { kind: "no-git" }
  | { kind: "no-repository"; why: string }
  /** This git cannot read the repository, but our own walk can. */
  | { kind: "owner"; why: string }
  | { kind: "broken"; why: string };

export class GitRefused extends Error {
  readonly refusal: GitRefusal;
  constructor(refusal: GitRefusal) {
    super("why" in refusal ? refusal.why : "git is not installed");
    this.refusal = refusal;
  }
}

/** Receives paths in batches, those of the index apart from the others, and is awaited. */
type Takes = (paths: readonly string[], tracked: boolean) => Promise<void>;

export interface Chosen {
  /** Directories that git does not track and that are separate repositories. */
  repositories: string[];
  /** Directories that git could not open, with the system's reason. */
  unreadable: { path: string; why: string }[];
}

/**
 * Passes the entries of the index at and below `dir`, and the files that are neither in it nor ignored, to `take`, each once.
 * A submodule is an entry of the index like any file: only `gitlinks` knows which they are. Throws `GitRefused`.
 */
export async function chosenFiles(dir: string, signal: AbortSignal, take: Takes): Promise<Chosen> {
  const chosen: Chosen = { repositories: [], unreadable: [] };
  let before = "";
  const words = await git(dir, ["ls-files", "-z", "-t", "-c", "-o", "--exclude-standard"], signal, async (text) => {
    const tracked: string[] = [];
    const others: string[] = [];
    // `H <path>` for an entry of the index, with another letter in a conflict, and `? <path>` for everything else.
    for (let start = 0; start < text.length;) {
      const nul = text.indexOf("\0", start);
      const end = nul === -1 ? text.length : nul;
      const path = text.slice(start + 2, end);
      if (text.charCodeAt(start) === UNTRACKED) {
        if (path.endsWith("/")) chosen.repositories.push(path.slice(0, -1));
        else others.push(path);
      } else if (path !== before) {
        // An entry in conflict is listed once for each side.
        tracked.push(path);
        before = path;
      }
      start = end + 1;
    }
    if (others.length > 0) await take(others, false);
    if (tracked.length > 0) await take(tracked, true);
  });
  chosen.unreadable = unreadableIn(words, await prefixOf(dir, words, signal));
  return chosen;
}

/** The submodules at and below `dir`, as the index has them. Throws `GitRefused`. */
export async function gitlinks(dir: string, signal: AbortSignal): Promise<Gitlink[]> {
  const links = new Map<string, Gitlink>();
  await git(dir, ["ls-files", "-z", "-t", "-s"], signal, (text) => {
    // `H 160000 <object> <stage>\t<path>`
    for (const entry of text.split("\0"))
      if (entry.startsWith("160000", 2)) {
        const path = entry.slice(entry.indexOf("\t") + 1);
        if (!links.has(path)) links.set(path, { path, skipped: entry.startsWith("S") });
      }
  });
  return [...links.values()];
}

/**
 * Files that git ignores at and below `dir`, and folders (with a slash at their end) in which everything is ignored.
 */
export async function ignoredFiles(dir: string, signal: AbortSignal): Promise<string[]> {
  const ignored: string[] = [];
  const args = ["ls-files", "-z", "-o", "-i", "--exclude-standard"];
  const take = (text: string): void => {
    for (const path of text.split("\0")) ignored.push(path);
  };
  try {
    await git(dir, [...args, "--directory"], signal, take);
  } catch (cause) {
    // Git fails at folders ("internal error") two levels below an ignored one; it can list the files.
    if (!(cause instanceof GitRefused) || (await ruleAgainst(dir, signal).catch(() => null)) === null) throw cause;
    ignored.length = 0;
    await git(dir, args, signal, take);
  }
  return ignored;
}

/** The `paths` that git ignores. Throws `GitRefused`. */
export async function ignoredOf(dir: string, paths: readonly string[], signal: AbortSignal): Promise<Set<string>> {
  const ignored = new Set<string>();
  for (let i = 0; i < paths.length; i += ASKED_AT_ONCE) {
    const some = paths.slice(i, i + ASKED_AT_ONCE).map((path) => `./${path}\0`);
    const take = (text: string): void => {
      for (const path of text.split("\0")) ignored.add(path.replace(/^\.\//, ""));
    };
    await git(dir, ["check-ignore", "-z", "--no-index", "--stdin"], signal, take, some.join(""));
  }
  return ignored;
}

/** The rule by which git ignores the directory itself, in words, or null. Throws `GitRefused`. */
export async function ruleAgainst(dir: string, signal: AbortSignal): Promise<string | null> {
  const parts: string[] = [];
  const take = (text: string): void => void parts.push(...text.split("\0"));
  await git(dir, ["check-ignore", "-z", "-v", "--no-index", "--stdin"], signal, take, ".\0");
  const [source, line, rule] = parts;
  return source === undefined ? null : `${source}, line ${line}: ${rule}`;
}

/** `warning: could not open directory 'a/b/': Permission denied`, with the path from the top of the repository. */
function unreadableIn(words: string, prefix: string): Chosen["unreadable"] {
  const said = words.matchAll(/^warning: could not open directory '(.*)\/': (.+)$/gm);
  return [...said].map(([, path = "", why = ""]) => ({
    path: path.startsWith(prefix) ? path.slice(prefix.length) : path,
    why: why.toLowerCase(),
  }));
}

/** The path of `dir` from the top of its repository, asked only if git printed a warning. */
async function prefixOf(dir: string, words: string, signal: AbortSignal): Promise<string> {
  let prefix = "";
  if (words !== "")
    await git(dir, ["rev-parse", "--show-prefix"], signal, (text) => void (prefix = text.replace(/\n$/, "")));
  return prefix;
}

/**
 * Passes git's answer to `take` in parts that end at a NUL; resolves with git's warnings. `input` is what git reads on stdin. Throws
 * `GitRefused` (A4).
 */
async function git(
  dir: string,
  args: readonly string[],
  signal: AbortSignal,
  take: (text: string) => void | Promise<void>,
  input = "",
): Promise<string> {
  let child;
  try {
    child = await started(
      spawn("git", [...QUIET_GIT, "-c", "safe.directory=*", ...args], {
        cwd: dir,
        env: gitEnvironment(),
        stdio: ["pipe", "pipe", "pipe"],
        signal,
        killSignal: "SIGKILL",
      }),
    );
  } catch (cause) {
    signal.throwIfAborted();
    const code = systemCode(cause);
    if (code === "ENOENT" || code === "EACCES") throw new GitRefused({ kind: "no-git" });
    throw cause;
  }
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill("SIGKILL");
  }, GIT_LIST_MS);
  // A git that ends early reads no more.
  child.stdin.on("error", () => undefined).end(input);
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => {
    if (words.length < STDERR_BYTES_MAX) words += chunk.toString();
  });
  let rest: Buffer = Buffer.alloc(0);
  const closed = once(child, "close");
  // Awaited below; an earlier failure is reported instead.
  closed.catch(() => undefined);
  let code: number | null;
  try {
    for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
      const end = chunk.lastIndexOf(0);
      if (end === -1) {
        rest = Buffer.concat([rest, chunk]);
        continue;
      }
      const first = chunk.subarray(0, end);
      const whole = rest.length === 0 ? first : Buffer.concat([rest, first]);
      rest = chunk.subarray(end + 1);
      await take(whole.toString());
    }
    [code] = (await closed) as [number | null];
  } catch (cause) {
    signal.throwIfAborted();
    throw cause;
  } finally {
    clearTimeout(timer);
    child.kill("SIGKILL");
  }
  signal.throwIfAborted();
  if (late) throw new GitRefused({ kind: "broken", why: `git did not list it within ${GIT_LIST_MS / 1000} seconds` });
  if (rest.length > 0) await take(rest.toString());
  const refusal = refusalOf(code, words, args[0] === "check-ignore");
  if (refusal) throw new GitRefused(refusal);
  return words;
}

/** @param mayFindNone `check-ignore` exits with 1 if it finds nothing. */
function refusalOf(code: number | null, words: string, mayFindNone: boolean): GitRefusal | null {
  const unread = words.split("\n").find((line) => isUnreadRules(line));
  if (unread !== undefined) return { kind: "broken", why: `git says: ${unread.replace(/^warning: /, "")}` };
  if (code === 0 || (code === 1 && mayFindNone)) return null;
  const said = words.split("\n").find((line) => line.startsWith("fatal:")) ?? words.split("\n")[0] ?? "";
  const why = `git says: ${said.replace(/^fatal: /, "") || `nothing, and ends with ${code ?? "a signal"}`}`;
  if (/dubious ownership|unsafe repository/.test(words)) return { kind: "owner", why };
  if (said.includes("promisor remote"))
    return {
      kind: "broken",
      why: `${why}; this partial clone lacks rules that count, and \`git status\` in it fetches them`,
    };
  if (/not a git repository \(or any/.test(said)) return { kind: "no-repository", why };
  return { kind: "broken", why };
}

/** Git does not accept a symlink in place of a `.gitignore` and continues without its rules; so does svc. */
const isUnreadRules = (line: string): boolean =>
  (line.startsWith("warning: unable to access '") && !line.endsWith(": Too many levels of symbolic links")) ||
  line.startsWith("warning: ignoring excessively large pattern file");

/**
 * The error for a project whose files cannot be determined. @param repository its path in the project; null outside of
 * any.
 */
export function unknownSet(projectDir: string, repository: string | null, why: string, cause: unknown): SvcError {
  const where =
    repository === null
      ? "cannot be listed"
      : `${repository === "" ? "is in a git repository" : `holds the git repository ${repository}`}, so svc cannot know which files belong to it`;
  const remedy =
    repository === null
      ? "mend that file or remove it"
      : "repair it, or remove its .git: then .gitignore and .svcignore files alone decide";
  return new SvcError(
    "project_dir_refused",
    { project_dir: projectDir, why: `${where}: ${why}; ${remedy}` },
    { cause },
  );
}
