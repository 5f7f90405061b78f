// Commands with several actions: `svc code ls`, `svc data verify NAME`.

import { nearest } from "../domain/nearest.ts";
import { usage } from "./argv.ts";
import type { Input } from "./command.ts";
import type { Io } from "./io.ts";

export interface Action {
  /** The usage line, for the error message: `svc`, the command, the action, then the names of its arguments. */
  usage: string;
  /** The minimum number of arguments. */
  least: number;
  most: number;
  /** The command's flags that this action accepts. */
  flags: readonly string[];
  run(args: string[], input: Input, io: Io): Promise<number>;
}

/**
 * Runs the action that the first argument names. Throws `usage_error` if there is none, or for other arguments or
 * flags.
 */
export function runAction(
  command: string,
  actions: Readonly<Record<string, Action>>,
  input: Input,
  io: Io,
): Promise<number> {
  const [name = "", ...args] = input.args;
  if (input.args.length === 0)
    throw usage(
      `\`svc ${command}\` needs an action.`,
      `Write ${Object.values(actions)
        .map((action) => `\`${action.usage}\``)
        .join(", ")}.`,
    );
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
  if (!action) {
    const near = nearest(name, Object.keys(actions));
    const all = Object.keys(actions).join(", ");
    throw usage(
      `Unknown action \`svc ${command} ${name}\`.`,
      `${near ? `Did you mean ${near}? ` : ""}The actions are ${all}.`,
    );
  }
  if (args.length < action.least) {
    const named = action.usage.replaceAll("…", "").split(" ").slice(3);
    const missing = named.slice(args.length, action.least).join(" and ");
    throw usage(`\`svc ${command} ${name}\` needs ${missing}.`, `Write \`${action.usage}\`.`);
  }
  if (args.length > action.most)
    throw usage(`\`svc ${command} ${name}\` takes no argument \`${args[action.most]}\`.`, `Write \`${action.usage}\`.`);
  // An empty path would be the current directory.
  if (args.includes(""))
    throw usage(`An argument of \`svc ${command} ${name}\` is empty.`, `Write \`${action.usage}\`.`);
  const other = [...input.flags, ...input.values.keys()].find((f) => f !== "json" && !action.flags.includes(f));
  if (other)
    throw usage(
      `\`svc ${command} ${name}\` has no flag --${other}.`,
      `\`svc ${command} --help\` lists the flags of each action.`,
    );
  return action.run(args, input, io);
}
