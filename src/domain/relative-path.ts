/** Whether this is a path below a folder, spelled in the one way in which it can be: no `..`, no `.`, no empty part, no NUL. */
export const isInside = (path: string): boolean =>
  path !== "" && !path.includes("\0") && path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
