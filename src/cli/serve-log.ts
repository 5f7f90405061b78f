// The log of `svc serve` on stderr: one plain line per message for people, or one JSON object per line for programs (pino).
//
// Both formats share the same calls, so that they contain the same facts. Requests are logged in JSON only, at level
// `debug`, or `error` when the server failed. No header, body, query or path with values is ever logged.

import { pino, type Logger } from "pino";
import type { Io } from "./io.ts";
import { safeField } from "../domain/terminal-text.ts";

export type LogFormat = "text" | "json";
export type LogLevel = keyof typeof RANK;

const RANK = { debug: 0, info: 1, warn: 2, error: 3 };

export interface ServeLog {
  info: (line: string) => void;
  warn: (line: string) => void;
  error: (line: string) => void;
  /** The logger for requests; undefined in text format. */
  requests: Logger | undefined;
}

export function serveLog(io: Io, format: LogFormat, level: LogLevel, version: string): ServeLog {
  if (format === "json") {
    const logger = pino(
      { level, base: { name: "svc", version, pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime },
      { write: (line: string) => io.err(line) },
    );
    return {
      info: (line) => logger.info(line),
      warn: (line) => logger.warn(line),
      error: (line) => logger.error(line),
      requests: logger,
    };
  }
  const say = (from: LogLevel) => (line: string) => {
    if (RANK[from] >= RANK[level]) io.err(safeField(line));
  };
  return { info: say("info"), warn: say("warn"), error: say("error"), requests: undefined };
}
