// Finds the words that may follow on an unfinished command line, for `svc completion`. Loads no more than a listing of
// runs does: a person waits for it at each Tab.

import { safeField } from "../domain/terminal-text.ts";
import type { Command, Completes } from "./command.ts";
import type { Io } from "./io.ts";
import { withStoreQuietly } from "./store.ts";
import { ACTIVE_STATUSES, OUTCOMES, type JOB_STATUSES } from "../schemas/names.ts";

export interface Offered {
  word: string;
  what: string;
}

/** The candidates, or that the shell should offer files. */
export type Completion = { files: true } | { files: false; candidates: Offered[] };

/** As many runs as a screen can show. */
const RUNS_MAX = 50;
const EVERYWHERE: readonly Offered[] = [
  { word: "--json", what: "Print JSON, including errors" },
  { word: "--help", what: "Display help" },
];

/** @param words what is typed after `svc`; the last one is the unfinished word, and may be empty. */
export async function complete(commands: readonly Command[], words: readonly string[], io: Io): Promise<Completion> {
  const typed = joined(words);
  const current = typed.at(-1) ?? "";
  const before = typed.slice(0, -1);
  if (before.includes("--")) return { files: true };
  const command = commands.find(({ name }) => name === before.find((word) => !word.startsWith("-")));
  const flag = current.startsWith("--") && current.includes("=") ? current.slice(0, current.indexOf("=")) : null;
  if (flag !== null) return after(`${flag}=`, current, await offered(valuesOf(command, flag), io));
  const last = before.at(-1);
  if (last?.startsWith("-") && takesValue(command, last))
    return from(await offered(valuesOf(command, last), io), current);
  if (current.startsWith("-")) return from(list(flagsOf(command)), current);
  if (last === "--json" && command?.fields) return from(list(fieldsAfter(command.fields, current)), current);
  if (!command) {
    const names = commands.map(({ name, summary }) => ({ word: name, what: summary }));
    return from(
      list([...names, { word: "help", what: "Print the help of a command, or a page of the documentation" }]),
      current,
    );
  }
  return from(await offered(completesOf(command, argumentsOf(command, before)), io), current);
}

const list = (candidates: readonly Offered[]): Completion => ({ files: false, candidates: [...candidates] });

/** Bash passes `--status=fa` as three words. */
function joined(words: readonly string[]): string[] {
  const whole: string[] = [];
  for (const word of words) {
    const last = whole.at(-1);
    const goesOn = last?.startsWith("--") && (word === "=" || last.endsWith("="));
    if (goesOn) whole[whole.length - 1] = `${last}${word}`;
    else whole.push(word);
  }
  return whole;
}

function from(found: Completion, current: string): Completion {
  if (found.files) return found;
  return list(found.candidates.filter(({ word }) => word.startsWith(current)));
}

/** The values of `--flag=`, each with the flag before it. */
function after(prefix: string, current: string, found: Completion): Completion {
  if (found.files) return found;
  return from(list(found.candidates.map(({ word, what }) => ({ word: `${prefix}${word}`, what }))), current);
}

const spellings = (flags: string): string[] => flags.replace(/\s*<.*$/, "").split(/,\s*/);
const optionOf = (command: Command | undefined, flag: string) =>
  command?.options.find(({ flags }) => spellings(flags).includes(flag));
const takesValue = (command: Command | undefined, flag: string): boolean =>
  optionOf(command, flag)?.flags.includes("<") === true;

function flagsOf(command: Command | undefined): Offered[] {
  const own = (command?.options ?? []).flatMap(({ flags, what }) =>
    spellings(flags)
      .filter((word) => word.startsWith("--"))
      .map((word) => ({ word, what })),
  );
  return [...own, ...EVERYWHERE];
}

/** Words of several fields: the ones that are already written stay in front. */
function fieldsAfter(fields: readonly string[], current: string): Offered[] {
  const written = current.slice(0, current.lastIndexOf(",") + 1);
  const taken = written.split(",");
  return fields.filter((field) => !taken.includes(field)).map((field) => ({ word: `${written}${field}`, what: "" }));
}

function valuesOf(command: Command | undefined, flag: string): Completes {
  const option = optionOf(command, flag);
  if (option?.values) return option.values;
  return /<(?:dir|file|path)>/.test(option?.flags ?? "") ? "files" : [];
}

/** The arguments that are already typed: neither flags nor their values. */
function argumentsOf(command: Command, before: readonly string[]): string[] {
  const words = before.slice(before.indexOf(command.name) + 1);
  return words.filter((word, i) => !word.startsWith("-") && !takesValue(command, words[i - 1] ?? ""));
}

function completesOf(command: Command, before: readonly string[]): Completes {
  if (command.completes) return command.completes(before);
  const names = [...(command.args ?? "").matchAll(/[<[](\.\.\.)?(\w+)[>\]]/g)];
  const at = names[before.length] ?? (names.at(-1)?.[1] === undefined ? undefined : names.at(-1));
  const name = at?.[2];
  if (name === "job" || name === "jobs") return "jobs";
  return name === "script" ? "files" : [];
}

async function offered(what: Completes, io: Io): Promise<Completion> {
  if (what === "files") return { files: true };
  if (typeof what !== "string") return list(what.map((word) => ({ word, what: "" })));
  const statuses = what === "jobs" ? undefined : what === "active jobs" ? ACTIVE_STATUSES : OUTCOMES;
  return list(await runs(io, statuses));
}

/** Newest first. */
const runs = (io: Io, status: readonly (typeof JOB_STATUSES)[number][] | undefined): Promise<Offered[]> =>
  withStoreQuietly(io, (reads) => {
    const page = reads?.jobs({ limit: RUNS_MAX, ...(status ? { status: [...status] } : {}) });
    return (page?.jobs ?? []).map((job) => ({
      word: job.id,
      what: [job.status, job.label, job.entrypoint].filter((part) => part !== null).join(" · "),
    }));
  });

/** One line for a shell: the word, a tab, and what it is. */
export const candidateLine = ({ word, what }: Offered): string =>
  `${safeField(word)}\t${safeField(what).slice(0, 80)}\n`;
