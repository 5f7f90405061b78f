import type { Problem } from "../../../src/schemas/job.ts";

/** A refusal with the form's names of the fields: `paths[1]` is the second of the folders and files. */
export function worded(problem: Problem): Problem {
  if (!problem.errors?.length) return problem;
  const told = problem.errors.map(({ field, message }) => {
    const at = /^paths[.[](\d+)/.exec(field)?.[1];
    const name = at !== undefined ? `Path ${Number(at) + 1} of Folders and files` : (TITLES[field] ?? field);
    return `${name} ${message}.`;
  });
  return { ...problem, detail: told.join(" ") };
}

const TITLES: Readonly<Record<string, string>> = {
  name: "Name",
  paths: "Folders and files",
  follow_links: "Follow links",
};
