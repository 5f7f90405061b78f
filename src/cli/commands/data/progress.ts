// The progress line of `svc data add` and `svc data verify`.

import { bytes } from "../../../domain/bytes.ts";
import type { Progress } from "../../../files/data/add.ts";
import type { Io } from "../../io.ts";
import { duration } from "../../text.ts";

const SHOW_EVERY_MS = 100;

/** Shows progress, with rate and remaining time, on one line of a terminal. */
export function shownOn(io: Io, name: string): (progress: Progress) => void {
  let begun: { at: number; doing: string } = { at: performance.now(), doing: "" };
  let shownAt = -Infinity;
  return ({ doing, files, bytes: done, files_total, bytes_total }) => {
    const now = performance.now();
    if (begun.doing !== doing) begun = { at: now, doing };
    if (now - shownAt < SHOW_EVERY_MS) return;
    shownAt = now;
    const of = (n: string, total: string | null): string => (total === null ? n : `${n} of ${total}`);
    const count = of(files.toLocaleString("en"), files_total?.toLocaleString("en") ?? null);
    const parts = [
      `${name}: ${doing}`,
      `${count} files`,
      of(bytes(done), bytes_total === null ? null : bytes(bytes_total)),
    ];
    const seconds = (now - begun.at) / 1000;
    if (doing === "reading" && seconds > 0.5 && done > 0) {
      const rate = done / seconds;
      parts.push(`${bytes(Math.round(rate))}/s`);
      if (bytes_total !== null) parts.push(`${duration(((bytes_total - done) / rate) * 1000)} left`);
    }
    io.status(parts.join(", "));
  };
}
