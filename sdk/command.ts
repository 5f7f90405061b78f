// Calls that start no control plane.
//
// Q1. Reading starts no control plane. A control plane that is started for a call resumes every run that a dead one has
//     left, and ends them when it ends: with this process.
// Q2. For one kill or one reconcile, the command does the work and waits for it; it resumes nothing else.
// Q3. A refusal names the caller's arguments, not the flags of the command.

import { execFile } from "node:child_process";
import { failureIn, findCli, parse } from "./control-planes.ts";
import { SvcError } from "./errors.ts";

const ANSWER_BYTES_MAX = 256 * 1024 * 1024;

/** The answer of `svc COMMAND --json …`. Rejects with the error that the command prints. */
export function asked<T>(home: string, [command, ...rest]: readonly [string, ...string[]]): Promise<T> {
  return new Promise((resolve, reject) => {
    const options = { env: { ...process.env, SVC_HOME: home }, maxBuffer: ANSWER_BYTES_MAX };
    if (rest.some((word) => word.includes("\0")))
      throw new SvcError({
        code: "invalid_request",
        message: "An argument contains a NUL character, which no command accepts.",
        hint: "Correct it and call again. Nothing was changed.",
        status: 400,
      });
    execFile(findCli(), [command, "--json", ...rest], options, (_, stdout, stderr) => {
      const answer = parse(stdout);
      if (answer !== null) return resolve(answer as T);
      const { error, last } = failureIn(stderr);
      const failed = {
        code: "start_failed",
        message: `\`svc ${command}\` failed: ${last ?? "it printed nothing"}.`,
        hint: "Run `svc doctor`: it lists what is missing on this computer.",
      };
      const told = { ...failed, ...error };
      if (told.code === "usage") [told.message, told.hint] = [asArguments(told.message), asArguments(told.hint)];
      reject(new SvcError(told));
    });
  });
}

/** Arguments that have another name than the command's flag. */
const ARGUMENTS: Record<string, string> = { tag: "tags", "max-runtime": "max_runtime_minutes", checkpoint: "names" };

/** Q3. Commands that the text quotes stay as they are. */
const asArguments = (words: string): string =>
  words.replace(/`svc [^`]*`|--([a-z][a-z-]*)/g, (whole, flag?: string) =>
    flag === undefined ? whole : (ARGUMENTS[flag] ?? flag.replaceAll("-", "_")),
  );
