// Interprets the error of a failed system call. Only these few meanings are recognised; every other failure must be
// reported.

const codeOf = (thrown: unknown): unknown => (thrown as { code?: unknown } | null | undefined)?.code;

/** The system's own code, such as `EACCES`; without one, the thrown value as text. */
export const systemCode = (thrown: unknown): string => {
  const code = codeOf(thrown);
  return typeof code === "string" ? code : String(thrown);
};

/**
 * Whether the path does not exist. Not for listing a folder: there `ENOTDIR` means that something else exists at the
 * path.
 */
export function isMissing(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return code === "ENOENT" || code === "ENOTDIR";
}

/** For `catch`: null if the path does not exist; rethrows any other failure. */
export function nullIfMissing(thrown: unknown): null {
  if (isMissing(thrown)) return null;
  throw thrown;
}

/** SQLite reports the last of its two when the index of its log does not fit. */
const DISK_FULL: ReadonlySet<unknown> = new Set([
  "ENOSPC",
  "EDQUOT",
  "SQLITE_FULL",
  "SQLITE_IOERR_SHMSIZE",
  "disk_full",
]);

/** Whether the disk, or the owner's quota, has no room left, as reported by the system, by SQLite or by svc. */
export function isDiskFull(thrown: unknown): boolean {
  return DISK_FULL.has(codeOf(thrown));
}
