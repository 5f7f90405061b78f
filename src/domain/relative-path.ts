/** Whether this is a path below a folder, spelled in the one way in which it can be: no `..`, no `.`, no empty part, no NUL. */
export const isInside = (path: string): boolean => !path.includes("\0") && !/(?:^|\/)\.{0,2}(?:\/|$)/.test(path);
