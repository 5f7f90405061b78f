// `svc debug-dump` packs what a maintainer needs to understand a run into one archive, without a secret in it. It reads
// the store alone, so that it works when the control plane does not.
//
// D1. Every text goes through the redactor of this home's secrets, also those that were masked when they were stored.
// D2. It takes the names of environment variables, and never a value. Credentials, keys and tokens are not read.

import {
  closeSync,
  createWriteStream,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { bytes } from "../../domain/bytes.ts";
import type { Redactor } from "../../domain/redaction.ts";
import { SvcError, systemCode } from "../../errors/index.ts";
import { tarOf } from "../../files/tar-writer.ts";
import { homeLayout } from "../../platform/home-layout.ts";
import { value } from "../argv.ts";
import type { Command } from "../command.ts";
import type { Io } from "../io.ts";
import { version } from "../root.ts";
import { withJob, type OpenReads } from "../store.ts";
import { printJson } from "../text.ts";

const LOG_BYTES_MAX = 2 * 1024 * 1024;
const EVENTS_MAX = 10_000;

export const debugDump: Command = {
  name: "debug-dump",
  args: "<job>",
  summary: "Pack record, timeline, events, log tail and versions of a run into an archive without secrets",
  options: [{ flags: "-o, --output <file>", what: "The archive (default svc-debug-JOB.tar.gz in this folder)" }],
  exits: [["3", "no such job"]],
  examples: ["svc debug-dump 4k2m", "svc debug-dump last -o /tmp/run.tar.gz"],
  run: (input, io) =>
    withJob(io, input.args[0] ?? "", async (reads, id) => {
      const { secretsOfHome } = await import("../../app/shown-secrets.ts");
      const secrets = secretsOfHome(io.home(), io.env).redactor();
      const target = resolve(io.cwd, value(input, "output") ?? `svc-debug-${id}.tar.gz`);
      const folder = mkdtempSync(join(tmpdir(), "svc-dump-"));
      try {
        const files = Object.entries(contents(reads, id, secrets, io)).map(([name, text]) => {
          writeFileSync(join(folder, name), text, { mode: 0o600 });
          return { path: name, size: Buffer.byteLength(text), executable: false };
        });
        await pack(folder, files, target);
        const { size } = statSync(target);
        if (input.json) await printJson(io, { file: target, bytes: size, files: files.map(({ path }) => path) });
        else await io.out(`${target}\n`);
        if (!input.json)
          io.err(
            `${bytes(size)}: ${files.map(({ path }) => path).join(", ")}. Known secrets are masked; look through it before you share it.`,
          );
        return 0;
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    }),
};

function contents(reads: OpenReads, id: string, secrets: Redactor, io: Io): Record<string, string> {
  const json = (of: unknown): string => `${JSON.stringify(secrets.redactValue(of), null, 2)}\n`;
  const logBytes = reads.logBytes(id);
  const tail = reads.readLog(id, Math.max(0, logBytes - LOG_BYTES_MAX), LOG_BYTES_MAX);
  return {
    "record.json": json(reads.job(id)),
    "timeline.json": json(reads.timeline(id)),
    "placements.json": json(reads.placements(id)),
    "ledger.json": json({
      machines: reads.job(id)?.machines ?? [],
      may_cost_now: reads.machines().filter((machine) => machine.job_id === id),
    }),
    "events.json": json(reads.eventsSince(0, { jobId: id, limit: EVENTS_MAX })),
    "checkpoints.json": json({
      checkpoints: reads.checkpoints(id),
      sinks: reads.sinks(id),
      series: reads.seriesList(id),
    }),
    "log-tail.txt": secrets.redactText(tail.toString("utf8")),
    "control-plane-log-tail.txt": secrets.redactText(tailOfFile(homeLayout.controlPlaneLog(io.home()))),
    "settings.json": secrets.redactText(tailOfFile(homeLayout.settings(io.home()))),
    "versions.json": json(versionsOf(io)),
  };
}

const versionsOf = (io: Io): object => ({
  svc: version(),
  node: process.version,
  sqlite: process.versions["sqlite"] ?? null,
  system: `${process.platform} ${process.arch}`,
  variables_set: Object.keys(io.env)
    .filter((name) => /^SVC_|_API_KEY$|_TOKEN$|^AWS_|^GOOGLE_|_proxy$/i.test(name))
    .toSorted(),
});

/** Empty for a file that is not there. */
function tailOfFile(path: string): string {
  try {
    const fd = openSync(path, "r");
    try {
      const { size } = statSync(path);
      const length = Math.min(size, LOG_BYTES_MAX);
      const buffer = Buffer.alloc(length);
      const text = buffer.toString("utf8", 0, readSync(fd, buffer, 0, length, size - length));
      // Half a line may begin with half a secret, which no redactor finds.
      return size > length ? text.slice(text.indexOf("\n") + 1) : text;
    } finally {
      closeSync(fd);
    }
  } catch (e) {
    if (systemCode(e) === "ENOENT") return "";
    throw e;
  }
}

async function pack(
  folder: string,
  files: { path: string; size: number; executable: boolean }[],
  target: string,
): Promise<void> {
  try {
    const out = createWriteStream(target, { flags: "wx", mode: 0o600 });
    await pipeline(Readable.from(tarOf(folder, files, () => {})), createGzip(), out);
  } catch (cause) {
    if (systemCode(cause) !== "EEXIST") throw cause;
    throw new SvcError(
      "command_unavailable",
      {
        what: `${target} already exists; svc did not overwrite it.`,
        instead: "Remove it, or name another file with --output.",
      },
      { cause },
    );
  }
}
