// The declaration of a CLI command. A command declares its arguments and flags, and `run` receives them checked and
// plain.

import type { Io } from "./io.ts";

export interface CommandOption {
  /** In the form of the help: `-f, --follow`, `--tail <n>`, `--no-wait`. `<…>` takes a value. */
  flags: string;
  what: string;
  /** May be repeated. */
  many?: true;
  /** An empty value means something. */
  empty?: true;
  /** The words that completion offers for its value. */
  values?: readonly string[];
}

/** The words that completion offers in one place: ids of runs, files of this computer, or these words. */
export type Completes = "jobs" | "active jobs" | "ended jobs" | "files" | readonly string[];

export interface Command {
  name: string;
  /** `<job>` is required, `[job]` optional, `[...jobs]` any number. */
  args?: string;
  summary: string;
  options: CommandOption[];
  /** Exit codes besides 0, 1 and 2, which every command has. */
  exits?: [code: string, meaning: string][];
  examples: string[];
  /** The fields that `--json FIELDS` may name, for a command that lists objects. */
  fields?: readonly string[];
  /** The completions for the argument after these; by default its name in `args` decides. */
  completes?(before: readonly string[]): Completes;
  /** Returns the exit code. Expected failures are thrown as errors of the catalogue. */
  run(input: Input, io: Io): Promise<number>;
}

/** The typed words, checked against the declaration. Values are the exact text: `010` stays `010`. */
export interface Input {
  args: string[];
  flags: ReadonlySet<string>;
  values: ReadonlyMap<string, string[]>;
  json: boolean;
  /** The fields of `--json FIELDS`; null for all. Then `json` is true as well. */
  fields: readonly string[] | null;
}
