/** The umask with which this process was started; null before `keepFilesPrivate`. */
let given: number | null = null;

/** Makes every file that this process creates from now on private to its owner. */
export function keepFilesPrivate(): void {
  const before = process.umask(0o077);
  given ??= before;
}

/** For files that the user's own programs create: the umask with which this process was started. */
export const givenUmask = (): number => given ?? process.umask();
