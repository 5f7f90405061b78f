// Computes the changes between two sets of code files, in the forms of `diff -u` and git.
//
// F1. Files are the same by their content. A removed and an added file with the same content are a rename.
// F2. Only text is compared line by line: no NUL byte near its beginning, and UTF-8.
// F3. Everything has a bound: a file that is too large is reported as changed, with the reason, and not compared
//     further.
// F4. A patch for a program includes contents that cannot be shown by lines in full, up to a separate bound; beyond it,
//     the patch says only that the file differs, and the program refuses it: half a patch must not pass for a whole
//     one.

import type { CodeChange } from "../../schemas/code.ts";
import type { CodeFile } from "../../schemas/job.ts";
import { binaryPatch } from "./binary-patch.ts";
import { isKept, decodedText } from "./contents.ts";
import { editsOf, textLines, type Edit } from "./line-diff.ts";

const CONTEXT_LINES = 3;
const TEXT_BYTES_MAX = 2 * 1024 * 1024;
const PATCH_BYTES_MAX = 16 * 1024 * 1024;
const ONLY_RECORDED = "the content was not kept, only what tells that it changed";

export interface CodeSide {
  files: readonly CodeFile[];
  read(file: CodeFile): Promise<Buffer>;
}

/** In order of path. Throws the errors of `read`. */
export async function diffCode(from: CodeSide, to: CodeSide): Promise<CodeChange[]> {
  const changes: CodeChange[] = [];
  const bounds = { bytesLeft: PATCH_BYTES_MAX };
  for (const [before, after] of pairs(from.files, to.files)) {
    changes.push(await changeOf(before, after, from, to, bounds));
  }
  return changes;
}

type Pair = [before: CodeFile | null, after: CodeFile | null];

/** The changed files, each with its old version; renames are found by content (F1). */
function pairs(from: readonly CodeFile[], to: readonly CodeFile[]): Pair[] {
  const olds = new Map(from.map((file) => [file.path, file]));
  const news = new Map(to.map((file) => [file.path, file]));
  const gone = from.filter((file) => !news.has(file.path));
  const byContent = new Map<string, CodeFile[]>();
  for (const file of gone)
    if (file.sha256 !== null) byContent.set(file.sha256, [...(byContent.get(file.sha256) ?? []), file]);
  const renamed = new Set<CodeFile>();
  const found: Pair[] = [];
  for (const after of to) {
    const before =
      olds.get(after.path) ??
      (after.size > 0 && after.sha256 !== null ? byContent.get(after.sha256)?.shift() : undefined) ??
      null;
    if (before && before.path !== after.path) renamed.add(before);
    if (before?.path === after.path && isSame(before, after) && before.mode === after.mode) continue;
    found.push([before, after]);
  }
  for (const before of gone) if (!renamed.has(before)) found.push([before, null]);
  const path = ([before, after]: Pair): string => (after ?? before)?.path ?? "";
  return found.sort((a, b) => (path(a) < path(b) ? -1 : 1));
}

/** By content if both have a digest, else by size and time. */
function isSame(one: CodeFile, other: CodeFile): boolean {
  if (one.sha256 !== null && other.sha256 !== null) return one.sha256 === other.sha256;
  return one.size === other.size && one.modified_at !== undefined && one.modified_at === other.modified_at;
}

async function changeOf(
  before: CodeFile | null,
  after: CodeFile | null,
  from: CodeSide,
  to: CodeSide,
  bounds: { bytesLeft: number },
): Promise<CodeChange> {
  const same = before !== null && after !== null && isSame(before, after);
  const change: CodeChange = {
    path: (after ?? before)?.path ?? "",
    old_path: before?.path ?? null,
    status: !before ? "added" : !after ? "removed" : before.path !== after.path ? "renamed" : same ? "mode" : "changed",
    old_mode: before?.mode ?? null,
    new_mode: after?.mode ?? null,
    old_size: before?.size ?? null,
    new_size: after?.size ?? null,
    binary: false,
    added_lines: 0,
    removed_lines: 0,
    patch: null,
    note: null,
  };
  if (same) return change;
  if ((before && !isKept(before)) || (after && !isKept(after))) return { ...change, binary: true, note: ONLY_RECORDED };
  if (Math.max(before?.size ?? 0, after?.size ?? 0) > TEXT_BYTES_MAX)
    return { ...change, note: "too large to be compared line by line" };
  const old = before ? decodedText(await from.read(before)) : "";
  const now = after ? decodedText(await to.read(after)) : "";
  if (old === null || now === null) return { ...change, binary: true, note: "binary files differ" };
  const patch = hunksOf(textLines(old), textLines(now));
  bounds.bytesLeft -= patch.text.length;
  if (bounds.bytesLeft < 0)
    return { ...change, ...patch.counts, note: "left out: the difference is too large as a whole" };
  return { ...change, ...patch.counts, patch: patch.text === "" ? null : patch.text };
}

function hunksOf(old: readonly string[], now: readonly string[]) {
  const counts = { added_lines: 0, removed_lines: 0 };
  const hunks: Edit[][] = [];
  for (const edit of editsOf(old, now)) {
    counts.removed_lines += edit.fromEnd - edit.fromStart;
    counts.added_lines += edit.toEnd - edit.toStart;
    const last = hunks.at(-1);
    // Edits whose context would touch share one hunk.
    if (last && edit.fromStart - last.at(-1)!.fromEnd <= 2 * CONTEXT_LINES) last.push(edit);
    else hunks.push([edit]);
  }
  return { text: hunks.map((edits) => hunkText(edits, old, now)).join(""), counts };
}

function hunkText(edits: Edit[], old: readonly string[], now: readonly string[]): string {
  const [first, last] = [edits[0]!, edits.at(-1)!];
  const before = Math.min(CONTEXT_LINES, first.fromStart);
  const after = Math.min(CONTEXT_LINES, old.length - last.fromEnd);
  const range = (start: number, end: number): string => {
    const lines = end - start;
    return `${lines === 0 ? start : start + 1}${lines === 1 ? "" : `,${lines}`}`;
  };
  const parts = [
    `@@ -${range(first.fromStart - before, last.fromEnd + after)} +${range(first.toStart - before, last.toEnd + after)} @@\n`,
  ];
  const tell = (sign: string, lines: readonly string[]): void => {
    for (const line of lines) parts.push(sign, line, line.endsWith("\n") ? "" : "\n\\ No newline at end of file\n");
  };
  let at = first.fromStart - before;
  for (const edit of edits) {
    tell(" ", old.slice(at, edit.fromStart));
    tell("-", old.slice(edit.fromStart, edit.fromEnd));
    tell("+", now.slice(edit.toStart, edit.toEnd));
    at = edit.fromEnd;
  }
  tell(" ", old.slice(at, last.fromEnd + after));
  return parts.join("");
}

const MODE = { file: "100644", executable: "100755" } as const;

/** All changes in the form of git, one by one, as `git apply` reads them (F4). Throws the errors of `read`. */
export async function* patches(changes: readonly CodeChange[], from: CodeSide, to: CodeSide): AsyncGenerator<string> {
  const content = async (side: CodeSide, path: string | null): Promise<Buffer | null> => {
    const file = side.files.find((each) => each.path === path);
    return file === undefined ? null : await side.read(file);
  };
  let bytesLeft = PATCH_BYTES_MAX;
  for (const change of changes) {
    if (change.note === null) {
      yield unified(change);
      continue;
    }
    const bytes = (change.old_size ?? 0) + (change.new_size ?? 0);
    if (change.note === ONLY_RECORDED || bytes > bytesLeft) {
      yield unified(change, `${differ(change)}\n`);
      continue;
    }
    bytesLeft -= bytes;
    const [old, now] = [await content(from, change.old_path), await content(to, change.new_mode && change.path)];
    yield unified(change, binaryPatch(old, now));
  }
}

const namesOf = ({ path, old_path }: CodeChange): [a: string, b: string] => [
  quoted(`a/${old_path ?? path}`),
  quoted(`b/${path}`),
];

function differ(change: CodeChange): string {
  const [a, b] = namesOf(change);
  const { status } = change;
  return `Binary files ${status === "added" ? "/dev/null" : a} and ${status === "removed" ? "/dev/null" : b} differ`;
}

/**
 * One change in the form of git, as `git apply` and `patch -p1` read it. @param whole the text for a content that
 * cannot be shown by lines
 */
export function unified(change: CodeChange, whole: string | null = null): string {
  const { path, status, old_mode, new_mode, patch, note } = change;
  const old = change.old_path ?? path;
  const [a, b] = namesOf(change);
  const lines = [`diff --git ${a} ${b}`];
  if (status === "added") lines.push(`new file mode ${MODE[new_mode!]}`);
  else if (status === "removed") lines.push(`deleted file mode ${MODE[old_mode!]}`);
  else if (old_mode !== new_mode) lines.push(`old mode ${MODE[old_mode!]}`, `new mode ${MODE[new_mode!]}`);
  if (status === "renamed")
    lines.push("similarity index 100%", `rename from ${quoted(old)}`, `rename to ${quoted(path)}`);
  if (patch !== null) {
    // As git does it: a tab marks where a name with blanks ends.
    const ended = (name: string): string => (name.includes(" ") ? `${name}\t` : name);
    lines.push(
      `--- ${status === "added" ? "/dev/null" : ended(a)}`,
      `+++ ${status === "removed" ? "/dev/null" : ended(b)}`,
    );
    return `${lines.join("\n")}\n${patch}`;
  }
  if (whole !== null) return `${lines.join("\n")}\n${whole}`;
  if (change.binary) lines.push(differ(change));
  else if (note !== null) lines.push(`(${note})`);
  return `${lines.join("\n")}\n`;
}

/** As git writes a name with characters that end a line or a quote. */
function quoted(path: string): string {
  // eslint-disable-next-line no-control-regex -- these are what is quoted
  if (!/[\u0000-\u001f\u007f"\\]/.test(path)) return path;
  const named: Record<string, string> = { "\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\" };
  // eslint-disable-next-line no-control-regex -- as above
  const inside = path.replace(
    /[\u0000-\u001f\u007f"\\]/g,
    (c) => named[c] ?? `\\${c.charCodeAt(0).toString(8).padStart(3, "0")}`,
  );
  return `"${inside}"`;
}
