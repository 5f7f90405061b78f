// Reports that a file with secrets was readable by others and is now private to its owner. Reported once per process:
// others may know the keys in it.

const said = new Set<string>();
let tell: ((words: string) => void) | null = null;

/** Sets the listener. The last one counts. */
export function onTightened(listener: (words: string) => void): void {
  tell = listener;
}

export function tightened(file: string, mode: number): void {
  if (tell === null || said.has(file)) return;
  said.add(file);
  tell(
    `${file} could be read by other users of this computer (mode ${(mode & 0o777).toString(8)}). Its mode is 600 now. ` +
      `Replace the keys in it if others may have read them.`,
  );
}
