import type { CheckpointsRemoved } from "../schemas/removal.ts";
import { bytes } from "./bytes.ts";

/** What deleting checkpoints frees, or would free, and what stays: for the command and the page. */
export function freedWords({ dry_run, freed_bytes, linked_bytes, left_bytes }: CheckpointsRemoved): string {
  const parts = [`${dry_run ? "Would free" : "Freed"} ${bytes(freed_bytes)} on the disk.`];
  if (linked_bytes > 0)
    parts.push(`${bytes(linked_bytes)} stay in use: other files are hard links to the same content.`);
  if (left_bytes > 0) parts.push(`${bytes(left_bytes)} could not be deleted yet; svc retries.`);
  return parts.join(" ");
}
