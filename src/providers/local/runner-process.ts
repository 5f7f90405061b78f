// Calls of the runner program. Its arguments are a command and a folder; everything else travels in files of that folder.

import { spawn } from "node:child_process";
import { basename, dirname } from "node:path";
import { SvcError } from "../../errors/index.ts";

export interface RunnerProgram {
  /** The runner's file, `svc_runner.py`. */
  runnerPath: string;
  /** Absolute path of a Python 3.8 or newer. */
  python: string;
}

export interface RunnerAnswer {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Importing it as a module lets Python keep it compiled: 13 ms less before the script starts than running the file. */
const BOOT = "import sys; sys.path.insert(0, sys.argv[1]); m = __import__(sys.argv[2]); m.main(sys.argv[2:])";
const OUTPUT_MAX = 1 << 20;

/**
 * Runs one command of the runner to its end. An abort stops the waiting, not the command: each may be repeated, and half a
 * `stop` helps nobody. With `untilLine` a line of output is the end.
 */
export function callRunner(
  program: RunnerProgram,
  args: string[],
  options: { env: NodeJS.ProcessEnv; cwd: string; timeoutMs: number; signal: AbortSignal; untilLine?: boolean },
): Promise<RunnerAnswer> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const module = basename(program.runnerPath, ".py");
    const child = spawn(program.python, ["-I", "-S", "-c", BOOT, dirname(program.runnerPath), module, ...args], {
      cwd: options.cwd,
      env: options.env,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true, // Ctrl-C in the control plane's terminal is not for it
    });
    let stdout = "";
    let stderr = "";
    const done = (act: () => void): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      act();
    };
    const onAbort = (): void => done(() => reject(signal.reason as Error));
    const timer = setTimeout(() => {
      done(() =>
        reject(
          new SvcError("runner_failed", { why: `\`${args[0]}\` gave no answer in ${options.timeoutMs / 1000} s` }),
        ),
      );
    }, options.timeoutMs);
    signal.addEventListener("abort", onAbort, { once: true });
    child.on("error", (error: NodeJS.ErrnoException) => {
      const missing = error.code === "ENOENT" || error.code === "EACCES" || error.code === "ENOTDIR";
      done(() =>
        reject(
          missing
            ? new SvcError("python_missing", { tried: program.python }, { cause: error })
            : new SvcError(
                "runner_failed",
                { why: `it could not be started (${error.code ?? error.message})` },
                { cause: error },
              ),
        ),
      );
    });
    // Without a free descriptor there is a child without streams, and the error follows.
    if (child.pid === undefined) return;
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      if (stdout.length < OUTPUT_MAX) stdout += text;
      if (options.untilLine && stdout.endsWith("\n")) done(() => resolve({ code: 0, stdout, stderr }));
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (stderr.length < OUTPUT_MAX) stderr += text;
    });
    child.on("close", (code) => done(() => resolve({ code, stdout, stderr })));
  });
}
