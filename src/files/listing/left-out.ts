// The files that were excluded from a run: the short list in its record, and the longer list that the home keeps.

import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { jsonOf } from "../../domain/parsed-lines.ts";
import { LeftOutList } from "../../schemas/code.ts";
import type { LeftOut, StoredLeftOut } from "../../schemas/job.ts";
import type { ProjectListing } from "./project-listing.ts";

const NAMES_MAX = 20;
const LIST_MAX = 2_000;

/** Null if nothing was excluded. Files that a person might miss come first. */
export function leftOutOf({ leftOut, ignored }: Pick<ProjectListing, "leftOut" | "ignored">): LeftOut | null {
  if (leftOut.length === 0 && ignored.length === 0) return null;
  const names = inOrder(leftOut).slice(0, NAMES_MAX);
  return { count: leftOut.length, names, ignored: ignored.length };
}

/** The longer list, which also names the files that git ignores. */
export function leftOutList({ leftOut, ignored }: Pick<ProjectListing, "leftOut" | "ignored">): LeftOutList {
  return {
    count: leftOut.length,
    names: inOrder(leftOut).slice(0, LIST_MAX),
    ignored: ignored.length,
    ignored_names: ignored.slice(0, LIST_MAX),
  };
}

function inOrder(leftOut: ProjectListing["leftOut"]) {
  const [missed, rest] = [leftOut.filter((entry) => entry.missed), leftOut.filter((entry) => !entry.missed)];
  return [...missed, ...rest].map(({ path, why }) => ({ path, why }));
}

/** Lines for the run's log: the files that a person might miss, each by name. */
export function leftOutLines(jobId: string, { names, missed }: Pick<StoredLeftOut, "names" | "missed">): string[] {
  const more = missed - NAMES_MAX;
  return [
    ...names.slice(0, missed).map(({ path, why }) => `svc: ${JSON.stringify(path)} is left out of the code: ${why}`),
    ...(more > 0 ? [`svc: and ${more} more are left out; \`svc code ls ${jobId} --left-out\` names them`] : []),
  ];
}

/**
 * For the error of a script that lacks a module or a file: a sentence about the excluded entry that it may need. Null
 * if `trouble` does not describe a missing file, or if no excluded file is one that a person might miss.
 */
export function lackedWords(told: Pick<StoredLeftOut, "names" | "missed"> | null, trouble: string): string | null {
  const missed = told?.names.slice(0, told.missed) ?? [];
  const [first] = missed;
  if (!told || !first || !LACKS.test(trouble)) return null;
  const module = /No module named ['"]?([\w.]+)/.exec(trouble)?.[1]?.split(".");
  const lacking = missed.find(({ path }) => {
    const names = path
      .replace(/\/$/, "")
      .replace(/\.(py|so|pyd)$/, "")
      .split("/");
    const last = names.at(-1) ?? "";
    return module ? module.some((name) => names.includes(name)) : trouble.includes(last);
  });
  const { path, why } = lacking ?? first;
  const where = `${JSON.stringify(path)} was left out of the code: ${why}.`;
  if (lacking) return where;
  const more = told.missed - 1;
  return `That may be why: ${where}${more > 0 ? ` So were ${more} more; \`svc code ls JOB --left-out\` names them.` : ""}`;
}

/** How Python, a shell and the system report a missing module or file. */
const LACKS = /ModuleNotFoundError|ImportError|FileNotFoundError|No module named|No such file or directory/;

export const leftOutId = (list: LeftOutList): string => hash("sha256", JSON.stringify(list), "hex").slice(0, 16);
export const leftOutPath = (codeDir: string, id: string): string => join(codeDir, "left-out", `${id}.json`);

/** Null if the list does not exist any more, or cannot be read. */
export async function readLeftOut(codeDir: string, id: string): Promise<LeftOutList | null> {
  const text = await readFile(leftOutPath(codeDir, id), "utf8").catch(() => "");
  const parsed = LeftOutList.safeParse(jsonOf(text));
  return parsed.success ? parsed.data : null;
}
