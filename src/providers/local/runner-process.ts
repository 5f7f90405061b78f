// Calls the runner program. Its arguments are a command and a folder; everything else travels in files of that folder.

import { spawn } from "node:child_process";
import { basename, dirname } from "node:path";
import { started } from "../../platform/started.ts";
import { isMissing, SvcError } from "../../errors/index.ts";
import { abortReason } from "../../domain/abort-reason.ts";

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

/** The command was begun, and may still do its work. */
export class NoAnswer extends SvcError<"runner_failed"> {
  constructor(command: string, seconds: number) {
    super("runner_failed", { why: `\`${command}\` gave no answer in ${seconds} s` });
  }
}

/** As an imported module, Python keeps it compiled: 13 ms less before the script starts than running the file. */
const BOOT = "import sys; sys.path.insert(0, sys.argv[1]); m = __import__(sys.argv[2]); m.main(sys.argv[2:])";
const OUTPUT_MAX = 1 << 20;

/**
 * Runs one command of the runner to its end. An abort stops the waiting, not the command: each is idempotent, and half
 * a `stop` is useless. With `untilLine` it resolves at the first line of output.
 */
export async function callRunner(
  program: RunnerProgram,
  args: string[],
  options: { env: NodeJS.ProcessEnv; cwd: string; timeoutMs: number; signal: AbortSignal; untilLine?: boolean },
): Promise<RunnerAnswer> {
  const { signal, timeoutMs } = options;
  signal.throwIfAborted();
  const module = basename(program.runnerPath, ".py");
  const child = await started(
    spawn(program.python, ["-I", "-S", "-c", BOOT, dirname(program.runnerPath), module, ...args], {
      cwd: options.cwd,
      env: options.env,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true, // keeps Ctrl-C in the control plane's terminal away from it
    }),
  ).catch((cause: NodeJS.ErrnoException) => {
    throw notStarted(cause, program.python);
  });
  return new Promise((resolve, reject) => {
    let stdout = "";
    let stderr = "";
    const done = (act: () => void): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      act();
    };
    const onAbort = (): void => done(() => reject(abortReason(signal)));
    const timer = setTimeout(() => {
      done(() => reject(new NoAnswer(args[0] ?? "", timeoutMs / 1000)));
    }, timeoutMs);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
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

function notStarted(cause: NodeJS.ErrnoException, python: string): SvcError {
  if (isMissing(cause) || cause.code === "EACCES") return new SvcError("python_missing", { tried: python }, { cause });
  return new SvcError("runner_failed", { why: `it could not be started (${cause.code ?? cause.message})` }, { cause });
}
