// Reads how far a script is from the lines that it prints, and estimates when it ends. The overview of a run calls it.
//
// P1. A mark is `N/M`, `N of M` after a word such as step or epoch, the counter of a progress bar, or `step N` where an
//     argument such as --steps gives the total. A ratio without such a word (`accuracy 3/4`) does not count.
// P2. The estimate is the pace between the first and the last mark of one kind: a run that resumed at step 900 of 1,000
//     has not done 900 steps in a minute. A progress bar within an epoch is not the whole run, so the mark that counts
//     the larger unit wins: epochs before steps, steps before a bar without a unit.
// P3. An estimate needs two marks that differ.

export interface Mark {
  /** `epoch`, `step`, or empty for a progress bar without a word. */
  unit: string;
  done: number;
  total: number;
}

export interface MarkedLine {
  text: string;
  atMs: number;
}

export interface ScriptProgress extends Mark {
  /** From 0 to 1. */
  share: number;
  /** When the script ends at this pace, in milliseconds since the epoch; null if the pace is unknown. */
  endsAtMs: number | null;
}

const UNIT = "epochs?|steps?|iterations?|iters?|batch(?:es)?";
const NUMBER = String.raw`(\d[\d,_]{0,14})`;
/** `epoch 3/10`, `Step [450/1000]`, `[Epoch 2 of 5]`. */
const COUNTED = new RegExp(
  String.raw`\b(${UNIT})\s{0,4}[:#=]?\s{0,4}[[(]?\s{0,2}${NUMBER}\s{0,2}(?:\/|of)\s{0,2}${NUMBER}\b`,
  "i",
);
/** `step   2840`, `epoch=3`. */
const AT = new RegExp(String.raw`\b(${UNIT})\s{0,8}[:#=]?\s{0,8}${NUMBER}\b`, "i");
/** ` 45%|████      | 450/1000 [` of tqdm. */
const BAR = new RegExp(String.raw`\d{1,3}%\|[^|]{0,200}\|\s{0,12}${NUMBER}\/${NUMBER}\s{0,2}\[`);
const LINE_MAX = 600;

const numberOf = (text: string): number => Number(text.replace(/[,_]/g, ""));
const unitOf = (word: string): string => (/^epoch/i.test(word) ? "epoch" : "step");
const valid = (mark: Mark): Mark | null => (mark.total > 1 && mark.done <= mark.total ? mark : null);

/** The totals that arguments name: `--epochs 40`, `--max_steps=1000`, `trainer.max_steps=1000`. */
export function totalsOf(args: readonly string[]): Readonly<Record<string, number>> {
  const totals: Record<string, number> = {};
  for (const [i, arg] of args.entries()) {
    const [, name = "", own] = /^-{0,2}([\w.-]{1,80})(?:=(\d{1,15}))?$/.exec(arg) ?? [];
    const word = /(?:^|[._-])(epochs|steps|iterations|iters)$/i.exec(name)?.[1];
    const every = /(?:warm|save|eval|log|accum|every|decay)/i.test(name);
    const next = own ?? (/^\d{1,15}$/.test(args[i + 1] ?? "") && arg.startsWith("-") ? args[i + 1] : undefined);
    if (word === undefined || every || next === undefined) continue;
    totals[unitOf(word)] ??= Number(next);
  }
  return totals;
}

/** The mark in a line (P1), or null. */
export function markOf(line: string, totals: Readonly<Record<string, number>>): Mark | null {
  const text = line.slice(0, LINE_MAX);
  const counted = COUNTED.exec(text);
  if (counted)
    return valid({
      unit: unitOf(counted[1] ?? ""),
      done: numberOf(counted[2] ?? ""),
      total: numberOf(counted[3] ?? ""),
    });
  const bar = BAR.exec(text);
  if (bar) return valid({ unit: "", done: numberOf(bar[1] ?? ""), total: numberOf(bar[2] ?? "") });
  const at = AT.exec(text);
  const unit = unitOf(at?.[1] ?? "");
  const total = at ? totals[unit] : undefined;
  return total === undefined ? null : valid({ unit, done: numberOf(at?.[2] ?? ""), total });
}

const RANK = ["epoch", "step", ""];

/**
 * @param first lines from the beginning of the script, oldest first.
 * @param last its newest lines, oldest first.
 */
export function progressOf(
  first: readonly MarkedLine[],
  last: readonly MarkedLine[],
  args: readonly string[],
): ScriptProgress | null {
  const totals = totalsOf(args);
  const marks = [...first, ...last].flatMap(({ text, atMs }) => {
    const mark = markOf(text, totals);
    return mark ? [{ ...mark, atMs }] : [];
  });
  const unit = RANK.find((each) => marks.some((mark) => mark.unit === each));
  const newest = marks.findLast((mark) => mark.unit === unit);
  if (unit === undefined || newest === undefined) return null;
  const same = marks.filter((mark) => mark.unit === unit && mark.total === newest.total);
  // A counter that falls back belongs to an earlier start, or to a later part of the work.
  const from = same.findLastIndex((mark, i) => i > 0 && mark.done < (same[i - 1]?.done ?? 0));
  const begin = same[Math.max(0, from)];
  const done = newest.done - (begin?.done ?? newest.done);
  const ms = newest.atMs - (begin?.atMs ?? newest.atMs);
  const left = newest.total - newest.done;
  return {
    unit,
    done: newest.done,
    total: newest.total,
    share: newest.done / newest.total,
    endsAtMs: done > 0 && ms > 0 ? newest.atMs + (left / done) * ms : null,
  };
}
