// Reads the words after `svc limits set` and `svc limits clear`.

import { safeField } from "../../../domain/terminal-text.ts";
import { LIMIT_NAMES, type LimitName } from "../../../schemas/limit-names.ts";
import type { LimitsChange } from "../../../schemas/limits.ts";
import { usage } from "../../argv.ts";
import { keyAndValue } from "../../key-value.ts";

const named = (text: string): LimitName => {
  const name = LIMIT_NAMES.find((each) => each === text);
  if (name === undefined) throw usage(`There is no limit ${safeField(text)}.`, `Use ${LIMIT_NAMES.join(", ")}.`);
  return name;
};

/** `LIMIT=NUMBER` or `LIMIT=none`. */
export function changeOf(words: readonly string[]): LimitsChange {
  if (words.length === 0)
    throw usage("`svc limits set` needs a limit.", "For example `svc limits set usd_per_day=20 max_gpus=8`.");
  const entries = words.map((word) => {
    const [name, given] = keyAndValue(word);
    const text = (given ?? "").replace(/^\$/, "");
    const value = text === "none" ? null : Number(text);
    if (text.trim() === "" || (value !== null && !Number.isFinite(value)))
      throw usage(`${safeField(word)} is not LIMIT=NUMBER.`, "For example `usd_per_day=20`. Nothing was changed.");
    return [named(name), value];
  });
  return Object.fromEntries(entries) as LimitsChange;
}

/** Removes these limits, or all. */
export const clearing = (words: readonly string[]): LimitsChange =>
  Object.fromEntries((words.length === 0 ? LIMIT_NAMES : words.map(named)).map((name) => [name, null]));
