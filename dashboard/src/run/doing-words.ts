// Describes the progress that a running step reports.

import { bytes } from "../../../src/domain/bytes.ts";
import { number } from "../format.ts";

/** Null if the detail does not describe any activity. Counts are files and bytes so far, and `…_total` of all. */
export function doingWords(detail: Readonly<Record<string, unknown>>): string | null {
  const { waiting_for: waiting, doing } = detail;
  if (typeof waiting === "string" && waiting !== "") return `Waiting: ${waiting}`;
  if (typeof doing !== "string" || doing === "") return null;
  const counts = [
    so(detail["bytes"], detail["bytes_total"], bytes),
    so(detail["files"], detail["files_total"], (n) => `${number(n)} files`),
  ].filter((each) => each !== null);
  return [doing, ...counts].join(", ");
}

function so(done: unknown, total: unknown, words: (n: number) => string): string | null {
  if (typeof done !== "number" || typeof total !== "number") return null;
  return `${words(done).replace(/ files$/, "")} of ${words(total)}`;
}
