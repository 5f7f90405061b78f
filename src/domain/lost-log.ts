// The text that stands where bytes of a stored log are lost, because its file was removed, replaced or cut short. It is as long
// as the lost part, so that every later byte keeps its offset: words, then NULs, then a line end.

const NEWLINE = 0x0a;

/** The lost part of a log. */
export interface LostPart {
  from: number;
  to: number;
}

export const wordsOfLost = ({ from, to }: LostPart): string =>
  `${to - from} ${to - from === 1 ? "byte" : "bytes"} of this log are lost: something other than svc removed or changed its file.`;

/** `length` bytes at `offset` of the log, all of them within the lost part. */
export function textOfLost(lost: LostPart, offset: number, length: number): Buffer {
  // The line before may have lost its end.
  const words = Buffer.from(`${lost.from > 0 ? "\n" : ""}svc: ${wordsOfLost(lost)}\n`);
  const text = Buffer.alloc(length);
  words.subarray(offset - lost.from, offset - lost.from + length).copy(text);
  if (offset + length === lost.to && length > 0) text[length - 1] = NEWLINE;
  return text;
}

/** At its start, at most so many bytes of the text are not NUL. */
export const wordBytesOf = ({ from, to }: LostPart): number => Math.min(to - from, 256);
