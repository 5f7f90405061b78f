// Parses the flags of a script whose first comment is its help.

import { readFileSync } from "node:fs";
import { parseArgs, type ParseArgsConfig } from "node:util";

type Options = NonNullable<ParseArgsConfig["options"]>;
type Values<T extends Options> = ReturnType<typeof parseArgs<{ options: T }>>["values"];

/** On a request for help, prints it and ends the process; ends with 2 for an unknown flag. @param file the script */
export function flagsOf<const T extends Options>(file: string, options: T): Values<T> {
  const words = process.argv.slice(2);
  if (words.includes("--help") || words.includes("-h")) {
    process.stdout.write(helpOf(file));
    process.exit(0);
  }
  try {
    return parseArgs({ options }).values;
  } catch (e) {
    process.stderr.write(`${e instanceof Error ? e.message : String(e)}\n\n${helpOf(file)}`);
    process.exit(2);
  }
}

function helpOf(file: string): string {
  const lines = readFileSync(file, "utf8").split("\n");
  const end = lines.findIndex((line) => !line.startsWith("//"));
  return `${lines
    .slice(0, end)
    .map((line) => line.replace(/^\/\/ ?/, ""))
    .join("\n")}\n`;
}
