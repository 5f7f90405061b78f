import { existsSync, readFileSync } from "node:fs";

/** The values of a file with one line of JSON for each; a missing file has none. */
export const jsonLinesIn = <T>(file: string): T[] =>
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as T)
    : [];
