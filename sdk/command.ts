// What is asked without a control plane.
//
// Q1. Looking starts nothing. One that is started for a call takes up every run that a dead one has left, and ends them when it ends:
//     with this process.
// Q2. What one kill or one reconcile has to do, the command does and waits for; it takes up nothing else.

import { execFile } from "node:child_process";
import { failureIn, findCli, parse } from "./control-planes.ts";
import { SvcError } from "./errors.ts";

const ANSWER_BYTES_MAX = 256 * 1024 * 1024;

/** What `svc COMMAND --json …` answers. Rejects with the error that it tells. */
export function asked<T>(home: string, [command, ...rest]: readonly [string, ...string[]]): Promise<T> {
  return new Promise((resolve, reject) => {
    const options = { env: { ...process.env, SVC_HOME: home }, maxBuffer: ANSWER_BYTES_MAX };
    execFile(findCli(), [command, "--json", ...rest], options, (_, stdout, stderr) => {
      const answer = parse(stdout);
      if (answer !== null) return resolve(answer as T);
      const { error, last } = failureIn(stderr);
      const failed = {
        code: "start_failed",
        message: `\`svc ${command}\` failed: ${last ?? "it printed nothing"}.`,
        hint: "Run `svc doctor`: it lists what is missing on this computer.",
      };
      reject(new SvcError({ ...failed, ...error }));
    });
  });
}
