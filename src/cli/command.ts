// The declaration of a CLI command. A command declares its arguments and flags, and `run` receives them checked and
// plain.

import type { Io } from "./io.ts";

export interface CommandOption {
  /** In the form of the help: `-f, --follow`, `--tail <n>`, `--no-wait`. `<…>` takes a value. */
  flags: string;
  what: string;
  /** May be repeated. */
  many?: true;
}

export interface Command {
  name: string;
  /** `<job>` is required, `[job]` optional, `[...jobs]` any number. */
  args?: string;
  summary: string;
  options: CommandOption[];
  /** Exit codes besides 0, 1 and 2, which every command has. */
  exits?: [code: string, meaning: string][];
  examples: string[];
  /** Returns the exit code. Expected failures are thrown as errors of the catalogue. */
  run(input: Input, io: Io): Promise<number>;
}

/** The typed words, checked against the declaration. Values are the exact text: `010` stays `010`. */
export interface Input {
  args: string[];
  flags: ReadonlySet<string>;
  values: ReadonlyMap<string, string[]>;
  json: boolean;
}
