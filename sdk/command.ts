// What is asked without a control plane.
//
// Q1. Looking starts nothing. One that is started for a call takes up every run that a dead one has left, and ends them when it ends:
//     with this process.
// Q2. What one kill or one reconcile has to do, the command does and waits for; it takes up nothing else.

import { execFile } from "node:child_process";
import { findCli } from "./control-planes.ts";
import { SvcError } from "./errors.ts";

const ANSWER_BYTES_MAX = 256 * 1024 * 1024;

/** What `svc COMMAND --json …` answers. Rejects with the error that it tells. */
export function asked<T>(home: string, [command, ...rest]: readonly [string, ...string[]]): Promise<T> {
  return new Promise((resolve, reject) => {
    const options = { env: { ...process.env, SVC_HOME: home }, maxBuffer: ANSWER_BYTES_MAX };
    execFile(findCli(), [command, "--json", ...rest], options, (_, stdout, stderr) => {
      const answer = objectOf(stdout);
      if (answer !== null) return resolve(answer as T);
      const told = stderr.split("\n").map((line) => objectOf(line)?.["error"]);
      const error = told.findLast((each) => typeof each === "object" && each !== null);
      if (error) return reject(new SvcError(error as ConstructorParameters<typeof SvcError>[0]));
      reject(
        new SvcError({
          code: "start_failed",
          message: `\`svc ${command}\` failed: ${stderr.trim().split("\n").at(-1) || "it said nothing"}.`,
          hint: "Run `svc doctor`, which says what this computer lacks.",
        }),
      );
    });
  });
}

function objectOf(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
