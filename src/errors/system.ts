// What a failed system call says. Only these few meanings are read out of it; every other failure is worth hearing of.

const codeOf = (thrown: unknown): unknown => (thrown as { code?: unknown } | null | undefined)?.code;

/** The system's own code, such as `EACCES`; where there is none, what was thrown as text. */
export const systemCode = (thrown: unknown): string => {
  const code = codeOf(thrown);
  return typeof code === "string" ? code : String(thrown);
};

/** Whether nothing is there under this path. Not for listing a folder: there `ENOTDIR` says that something else is. */
export function isMissing(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return code === "ENOENT" || code === "ENOTDIR";
}

/** For `catch`: null where nothing is there under this path; any other failure stays one. */
export function nullIfMissing(thrown: unknown): null {
  if (isMissing(thrown)) return null;
  throw thrown;
}

/** Whether the disk, or the owner's share of it, has no room left: in the words of the system, of SQLite, or in ours. */
export function isDiskFull(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return code === "ENOSPC" || code === "EDQUOT" || code === "SQLITE_FULL" || code === "disk_full";
}
