// A file with secrets that others could read was made its owner's alone. That is said once per process: keys in it may be known to others.

const said = new Set<string>();
let tell: ((words: string) => void) | null = null;

/** Where it is said. The last one counts. */
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
