// The tags of a run: short words by which people find runs again.

import { z } from "zod";
import { TAG_LENGTH_MAX, TAG_WORD, TAGS_MAX } from "./tag-words.ts";

export const Tag = z
  .string()
  .min(1, "must not be empty")
  .max(TAG_LENGTH_MAX, `must be at most ${TAG_LENGTH_MAX} characters`)
  .regex(TAG_WORD, "must be one word of letters, digits and . _ : / = + @ -, beginning with a letter or a digit");

export const Tags = z
  .array(Tag)
  .max(TAGS_MAX, `must be at most ${TAGS_MAX} tags`)
  .refine((tags) => new Set(tags).size === tags.length, "must name each tag once");
