// Finds the reason of a failure at the end of a node's log: from the launcher (python/svc/_launch.py), Python, pip or
// uv. A script could print the same text: it decides nothing, and only makes a failure's message plainer.

import { oneLine } from "../../domain/terminal-text.ts";

const WORDS_MAX = 300;

export interface FailedRank {
  /** `rank 3`, with its node if there are several; null if it was the only process of the run. */
  who: string | null;
  rank: number | null;
  signal: string | null;
}

/** The rank that failed first, and the signal that ended it; null if the launcher did not report it. */
export function failedRank(tail: string): FailedRank | null {
  const said = [
    ...tail.matchAll(/^svc: (?:(rank ([0-9]{1,6})(?: \(local rank [0-9]+ of node [0-9]+\))?)|the script) (.*)$/gm),
  ].at(-1);
  if (!said) return null;
  const [, who = null, rank, how = ""] = said;
  const signal = /^was ended by (SIG[A-Z0-9]+|signal [0-9]+)$/.exec(how.trim())?.[1] ?? null;
  return { who, rank: rank === undefined ? null : Number(rank), signal };
}

/**
 * The exception that ended the script: the line below the last traceback, or the launcher's report on Ray. If torch has
 * prefixed the lines with ranks (`[rank3]: `), only those of the first failed rank count: the others only follow. Null
 * if it is uncertain.
 */
export function raised(tail: string, rank: number | null): string | null {
  const lines = tail.split("\n").map((line) => {
    // svc adds no rank (`[rank3] `) before lines that torch has marked itself.
    const [, of, text] = /^\[rank([0-9]{1,6})\](?::[ ]?| )(.*)$/s.exec(line) ?? [];
    return { rank: of === undefined ? null : Number(of), text: text ?? line };
  });
  const own = lines.filter((line) => rank !== null && line.rank === rank).map((line) => line.text);
  const common = lines.filter((line) => line.rank === null).map((line) => line.text);
  return (
    lastException(own) ??
    lastException(common) ??
    common.findLast((line) => line.startsWith("svc: Ray: "))?.slice(5, WORDS_MAX) ??
    null
  );
}

function lastException(lines: string[]): string | null {
  const top = lines.findLastIndex((line) => line.includes("Traceback (most recent call last):"));
  const after =
    top < 0 ? lines.filter((line) => /^(Syntax|Indentation|Tab)Error: /.test(line)).slice(-1) : lines.slice(top + 1);
  const said = after.find((line) => /^\S/.test(line));
  return said !== undefined && /^[A-Za-z_][\w.]*(: |$)/.test(said.trimEnd()) ? plain(said) : null;
}

/** Why the installation failed, from the last output of pip, uv or conda. */
export function failingLine(tail: string): string {
  const lines = tail.split("\n").map((line) => line.slice(line.lastIndexOf("\r") + 1).trimEnd());
  const said = lines.filter((line) => line !== "" && !/^\s*(note|hint|\[notice\]|\[end of output\])/i.test(line));
  // uv and pip draw a box around requirements that they could not resolve: `×`, `╰─▶`, `│`.
  const box = said.findLastIndex((line) => /^\s*\u00d7/.test(line));
  const error = said.findLastIndex((line) => /^(ERROR|error|svc):? /.test(line));
  if (error > box) {
    const causes = said.slice(error + 1).filter((line) => /^\s+(cause|caused by): /i.test(line));
    return plain([said[error], ...causes].join(" "));
  }
  if (box >= 0)
    return plain(
      said
        .slice(box)
        .join(" ")
        .replaceAll(/[\u00d7\u2570\u2500\u25b6>\u2502]+/g, " "),
    );
  return plain(said.at(-1) ?? "it printed nothing");
}

/** Words in a line that reports a failure. */
const TROUBLE =
  /error|exception|fatal|fail|cannot|can't|could not|unable|not found|no such|denied|refused|invalid|unrecognized|unknown|missing|required|abort|killed|panic|exceeded|traceback/i;
const LAST_LINES = 12;
/** The blocks of progress bars, and percent. */
const PROGRESS = /[\u2588-\u258f]|\d%\|/;

/**
 * The last output of a failed script: the last line that reports a failure, else the last line; null without output.
 */
export function lastWords(tail: string): { words: string; isTrouble: boolean } | null {
  const lines = tail
    .split("\n")
    .map((line) => plain(line.slice(line.lastIndexOf("\r") + 1)))
    .filter((line) => /[\p{L}\p{N}]/u.test(line) && !line.startsWith("svc: ") && !PROGRESS.test(line))
    .slice(-LAST_LINES);
  const trouble = lines.findLast((line) => TROUBLE.test(line));
  const words = trouble ?? lines.at(-1);
  return words === undefined ? null : { words, isTrouble: trouble !== undefined };
}

/** The installer's warnings, in whole sentences. */
export const installWarnings = (tail: string): string[] =>
  // They are printed at once, and again at the end, so that the log's tail contains them.
  [...new Set([...tail.matchAll(/^svc: warning: (.+)$/gm)].map(([, words = ""]) => plain(words)))].slice(-10);

/** One line without control characters, no longer than a message may be. */
function plain(words: string): string {
  const line = oneLine(words).replaceAll(/\s+/g, " ");
  return line.length > WORDS_MAX ? `${line.slice(0, WORDS_MAX - 1)}…` : line;
}

/** Whether the launcher reported that it starts one process although several were requested. */
export const startedAlone = (tail: string): boolean =>
  /^svc: torch is not installed for .*: one plain process is started instead of one for each GPU/m.test(tail);

/** The program that the launcher could not find. */
export function missingLauncher(tail: string): { launcher: string; why: string } | null {
  const [, launcher, why] = [...tail.matchAll(/^svc: launcher_missing: (torchrun|ray): (.{1,300})$/gm)].at(-1) ?? [];
  return launcher !== undefined && why !== undefined ? { launcher, why: why.trim() } : null;
}
