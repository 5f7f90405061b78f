// The files of a debug dump.
//
// D1. Every text goes through the redactor of this home's secrets, also those that were masked when they were stored.
// D2. It takes the names of environment variables, and never a value. Credentials, keys and tokens are not read.

import { closeSync, openSync, readSync, statSync } from "node:fs";
import { systemCode } from "../../../errors/index.ts";
import { homeLayout } from "../../../platform/home-layout.ts";
import type { Io } from "../../io.ts";
import { version } from "../../root.ts";
import type { OpenReads } from "../../store.ts";

const LOG_BYTES_MAX = 2 * 1024 * 1024;
const EVENTS_MAX = 10_000;

/** The text of each file, by its name in the archive. */
export function dumpContents(reads: OpenReads, id: string, io: Io): Record<string, string> {
  const { secrets } = reads;
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
