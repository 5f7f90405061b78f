/** What this process was started with; null before `keepFilesPrivate`. */
let given: number | null = null;

/** From here on, all that this process makes is its owner's alone. */
export function keepFilesPrivate(): void {
  const before = process.umask(0o077);
  given ??= before;
}

/** For what the user's own programs make: the umask that this process was started with. */
export const givenUmask = (): number => given ?? process.umask();
