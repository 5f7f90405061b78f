import type { ProjectListing } from "./project-listing.ts";
import { ruleAgainstProject } from "./repository-files.ts";

/** Whether an entry of a list is the path, or a folder above it. */
export const coversPath = (entry: string, path: string): boolean =>
  entry === path || path.startsWith(entry.endsWith("/") ? entry : `${entry}/`);

/** Why an existing file is not part of the run's code, and what to do, as text that follows its name. */
export async function whyNotListed(
  root: string,
  path: string,
  { leftOut, ignored }: Pick<ProjectListing, "leftOut" | "ignored">,
): Promise<string> {
  const told = leftOut.find((entry) => coversPath(entry.path, path));
  if (told) return `is left out of the run's code: ${told.path === path ? "" : `${told.path}: `}${told.why}`;
  if (ignored.some((entry) => coversPath(entry, path)))
    return `is left out of the run's code: git ignores it; \`!${path}\` in a .svcignore takes it back, and so does \`git add -f\``;
  const rule = await ruleAgainstProject(root);
  if (rule !== null)
    return `is left out of the run's code: git ignores the whole project directory (${rule}); change that rule, or run \`git init\` in the project`;
  return "is left out of the run's code by .gitignore, .svcignore or the default exclusions";
}
