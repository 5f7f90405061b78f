// How the actions of `svc data` write an amount and the files that were left out.

import { bytes } from "../../../domain/bytes.ts";
import type { DataSummary } from "../../../schemas/data.ts";
import type { Io } from "../../io.ts";
import { safeField } from "../../../domain/terminal-text.ts";

export const amount = ({ files, bytes: size }: { files: number; bytes: number }): string =>
  `${files.toLocaleString("en")} ${files === 1 ? "file" : "files"}, ${bytes(size)}`;

export function tellLeftOut({ left_out, left_out_count }: DataSummary, io: Io): void {
  for (const { path, why } of left_out.slice(0, 10)) io.err(`left out: ${safeField(path)}: ${why}`);
  if (left_out_count > 10) io.err(`left out: ${left_out_count - 10} more; see \`svc data show NAME --json\``);
  if (left_out.some(({ leaves }) => leaves))
    io.err("Add --follow-links to include symlinks that point outside the folder.");
}
