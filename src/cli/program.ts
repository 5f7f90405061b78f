// The CLI as a whole: the list of commands, the printing of errors, and the exit code of the process.

import { onTightened } from "../domain/tightened.ts";
import { asksForJson, declare, helpText, parseArgv } from "./argv.ts";
import { commandsFor } from "./commands/index.ts";
import { processIo } from "./io.ts";
import { asTold } from "./told.ts";
import { version } from "./root.ts";
import { safeField, toJson } from "../domain/terminal-text.ts";

/** Runs one command line and ends the process with its exit code. */
export async function runCli(words: string[]): Promise<void> {
  const io = processIo();
  onTightened((words) => io.err(words));
  let code: number;
  try {
    const commands = await commandsFor(words);
    const cli = declare(commands, version());
    const parsed = parseArgv(words, cli, commands);
    if (parsed.kind === "help") {
      await io.out(helpText(cli, parsed.command));
      code = 0;
    } else if (parsed.kind === "version") {
      await io.out(`svc ${version()}\n`);
      code = 0;
    } else {
      code = await parsed.command.run(parsed.input, io);
      if (io.interrupted.aborted) code = 130;
    }
  } catch (thrown) {
    code = io.interrupted.aborted ? 130 : tellError(thrown, asksForJson(words), (text) => io.err(text));
  }
  process.exitCode = code;
  // Both streams are flushed before the process ends, whatever handles a library still holds.
  process.stdout.write("", () => process.stderr.write("", () => process.exit(code)));
}

/** Prints one line for the problem and one for the remedy; or one JSON object. Returns the exit code. */
export function tellError(thrown: unknown, json: boolean, err: (text: string) => void): number {
  const e = asTold(thrown);
  if (json) {
    const { code, message, hint, errors } = e;
    err(toJson({ error: { code, message, hint, ...(errors ? { errors } : {}) } }));
  } else {
    // The summary of a refusal may already say what is wrong with a field.
    const further = (e.errors ?? []).filter((f) => !(e.message.includes(f.field) && e.message.includes(f.message)));
    const fields = further.length > 0 ? ` (${further.map((f) => `${f.field}: ${f.message}`).join("; ")})` : "";
    err(`${safeField(e.message + fields)}\n${safeField(e.hint)}`);
    if (e.code === "internal_error" && process.env["SVC_DEBUG"]) err(String((thrown as Error)?.stack ?? thrown));
  }
  return e.exit;
}
