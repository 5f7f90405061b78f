/** Tags of one run at most. */
export const TAGS_MAX = 16;
/** Characters of one tag at most. */
export const TAG_LENGTH_MAX = 64;
/** Letters and digits of any script, then also `._:/=+@-`: a tag needs no quotes in a shell, an address or a list with commas. */
export const TAG_WORD = /^[\p{L}\p{N}][\p{L}\p{M}\p{N}._:/=+@-]*$/u;

/** Tags as people write them, with commas or spaces between them; each is there once. */
export const tagsIn = (text: string): string[] => [...new Set(text.split(/[\s,]+/).filter((tag) => tag !== ""))];

/** The tags of a run after some were added and some removed; a tag in both is removed. */
export const tagsAfter = (before: readonly string[], added: readonly string[], removed: readonly string[]): string[] =>
  [...new Set([...before, ...added])].filter((tag) => !removed.includes(tag));
