/** A character that is not to be obeyed, as its code: `\x1b`, `\u202e`. */
export const visible = (code: number): string =>
  code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
