// A command of svc that runs until the test ends it, as in a person's terminal.

import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { countStart } from "../control-planes.ts";
import { PROGRAM } from "../program.ts";

const SVC = join(import.meta.dirname, "../../bin/svc");

export interface SvcProcess {
  /** The JSON object that it printed when it was ready. */
  said: Record<string, unknown>;
  /** Ends the command as Ctrl-C does; resolves when it has ended. */
  end(): Promise<void>;
}

/** Starts `svc ...args`. Throws an error with its output if it ends before it is ready. */
export async function startSvc(args: string[], env: NodeJS.ProcessEnv, cwd: string): Promise<SvcProcess> {
  if (args[0] === "serve") countStart(null);
  const child = spawn(SVC, args, {
    cwd,
    env: { ...process.env, ...PROGRAM, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [out, err] = ["", ""];
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  const said = await new Promise<Record<string, unknown>>((resolve, reject) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out += text;
      try {
        resolve(JSON.parse(out) as Record<string, unknown>);
      } catch {
        // The JSON has not arrived completely yet.
      }
    });
    child.on("exit", (code) => reject(new Error(`svc ${args[0]} ended with ${code}: ${err}`)));
  });
  return { said, end: () => ended(child) };
}

const ended = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    child.removeAllListeners("exit").once("exit", () => resolve());
    child.kill("SIGINT");
  });
