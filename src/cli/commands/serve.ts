// `svc serve`: the control plane with its API and dashboard. Its start and its graceful shutdown are in
// `serve/serve-until-end.ts`.

import { oneOf, usage, value, whole } from "../argv.ts";
import type { Command } from "../command.ts";
import type { LogFormat, LogLevel } from "../serve-log.ts";
import { serveUntilEnd } from "./serve/serve-until-end.ts";

const LOG_FORMATS: readonly LogFormat[] = ["text", "json"];

const LOG_LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

export const serve: Command = {
  name: "serve",
  summary: "Start the control plane, with its API and dashboard",
  options: [
    {
      flags: "--host <address>",
      what: "Address to listen on (default 127.0.0.1); any address except loopback requires a token",
    },
    { flags: "--port <n>", what: "Port (default 8780); 0 picks a free one" },
    { flags: "--open", what: "Open the dashboard in a browser" },
    { flags: "--until-eof", what: "Shut down gracefully at EOF on stdin, once no client is attached" },
    { flags: "--log-format <format>", what: "Log to stderr as text (default) or as json, one object per line" },
    { flags: "--log-level <level>", what: "Minimum log level: debug, info (default), warn or error" },
    { flags: "--with-parent <pid>", what: "Shut down gracefully when that process ends" },
  ],
  exits: [["130", "ended by Ctrl-C"]],
  examples: ["svc serve", "svc serve --open", "svc serve --port 0 --json"],
  async run(input, io) {
    const host = value(input, "host") ?? "127.0.0.1";
    if (!/^[0-9a-zA-Z.:-]{1,253}$/.test(host))
      throw usage(`--host cannot be \`${host}\`.`, "Use an address, for example 127.0.0.1.");
    return serveUntilEnd(
      {
        host: host === "localhost" ? "127.0.0.1" : host,
        port: whole(input, "port", { min: 0, max: 65_535 }) ?? 8780,
        open: input.flags.has("open"),
        untilEof: input.flags.has("until-eof"),
        parent: whole(input, "with-parent", { min: 1, max: 4_194_304 }),
        json: input.json,
        logFormat: oneOf(input, "log-format", LOG_FORMATS) ?? "text",
        logLevel: oneOf(input, "log-level", LOG_LEVELS) ?? "info",
      },
      io,
    );
  },
};
