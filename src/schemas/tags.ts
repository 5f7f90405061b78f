// The tags of a run: short words by which people find runs again.

import { z } from "zod";

/** Tags of one run at most. */
export const TAGS_MAX = 16;
/** Letters and digits of any script, then also `._:/=+@-`: a tag needs no quotes in a shell, an address or a list with commas. */
const WORD = /^[\p{L}\p{N}][\p{L}\p{M}\p{N}._:/=+@-]*$/u;

export const Tag = z
  .string()
  .min(1, "must not be empty")
  .max(64, "must be at most 64 characters")
  .regex(WORD, "must be one word of letters, digits and . _ : / = + @ -, beginning with a letter or a digit");

export const Tags = z
  .array(Tag)
  .max(TAGS_MAX, `must be at most ${TAGS_MAX} tags`)
  .refine((tags) => new Set(tags).size === tags.length, "must name each tag once");
