// The part of the SDK for training scripts, in a job and outside of one.
//
// L1. `log` never throws: training comes first. Values that cannot be recorded are skipped, with one line on stderr per
//     name.
// L2. A record is one write of at most 4096 bytes, which pipes and append-only files accept atomically.
// L3. Records go to the pipe that `SVC_RECORDS` names, wherever stdout goes; if it cannot be opened they use stdout.
// L4. The mark in front of it is random per run, so that printed data cannot pass for a metric.

import { closeSync, constants, fstatSync, mkdirSync, openSync, writeSync } from "node:fs";
import { resolve } from "node:path";

const LINE_BYTES_MAX = 4096;
const WAIT_MS_MAX = 1_000;
/** Deeper objects are skipped: one that contains itself has no end. */
const DEPTH_MAX = 16;

let calls = 0;
let steps = 0;
let off = false;
let torn = false;
/** The last record was dropped after a full wait: until one is accepted again, the next ones do not wait. */
let stalled = false;
/** The open pipe for records. Device and inode show whether the descriptor still is that pipe. */
let channel: { fd: number; dev: number; ino: number } | null = null;
let channelRetryAt = 0;
const warned = new Set<string>();

/** Numbers by name; an object groups those under it. */
export interface Metrics {
  readonly [name: string]: number | boolean | bigint | Metrics;
}

/**
 * Records metrics of the run: they are stored, charted on the run's page and kept out of its log. Only rank 0 (`RANK`)
 * records, unless `allRanks`; without `RANK` each node records, with its number as the rank. Without `step`, the calls of
 * this process are counted from 0. An object in `values` is flattened: `{ val: { loss: 1 } }` is `val/loss`. Outside of a
 * job it prints a short line.
 */
export function log(values: Metrics, step?: number | null, allRanks = false): void {
  try {
    const launched = counted("RANK");
    if (launched !== null && launched > 0 && !allRanks) return;
    if (typeof values !== "object" || values === null || Array.isArray(values)) {
      warn(
        "",
        `the call was skipped: values must be an object, not ${JSON.stringify(values)}; write log({ loss: 0.5 })`,
      );
      return;
    }
    const rank = launched ?? counted("SVC_NODE_RANK") ?? 0;
    const at = typeof step === "number" && Number.isFinite(step) ? step : steps++;
    const pairs: string[] = [];
    const flat = flattened(values);
    for (const [name, value] of flat) {
      const text = number(value);
      if (text === null) warn(name, `${JSON.stringify(name)} is skipped: expected a number, not ${typeof value}`);
      else pairs.push(`${ascii(name)}:${text}`);
    }
    const mark = process.env["SVC_METRICS_MARK"] ?? "";
    if (/^[!-~]+$/.test(mark)) record(mark, at, rank, pairs);
    else if (pairs.length > 0) writeSync(1, `step ${at}: ${flat.map(([k, v]) => `${k}=${String(v)}`).join("  ")}\n`);
  } catch (e) {
    warn("", `the call was skipped: ${e instanceof Error ? e.message : String(e)}`);
  }
}

/** A variable that counts from 0; null if it is not set. */
function counted(variable: string): number | null {
  const text = process.env[variable] ?? "";
  return /^[0-9]+$/.test(text) ? Number(text) : null;
}

/** The directory whose files are collected as checkpoints: `SVC_CHECKPOINT_DIR`; outside of a job `./checkpoints-local`. Made if missing. */
export function checkpointDir(): string {
  const folder = process.env["SVC_CHECKPOINT_DIR"] || resolve("checkpoints-local");
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** The values by their full names; of an object in it, the members with both names and a `/` between them. */
function flattened(values: object, before = "", depth = 0): [name: string, value: unknown][] {
  return Object.entries(values).flatMap(([name, value]): [string, unknown][] => {
    const full = before === "" ? name : `${before}/${name}`;
    const isGroup = typeof value === "object" && value !== null && !Array.isArray(value) && depth < DEPTH_MAX;
    return isGroup ? flattened(value, full, depth + 1) : [[full, value]];
  });
}

/** One call uses one `n`, for all of its lines. */
function record(mark: string, step: number, rank: number, pairs: string[]): void {
  const head = `\u001esvc1:${mark} {"k":"m","n":${++calls},"s":${step},"t":${(Date.now() / 1000).toFixed(3)},"r":${rank},"m":{`;
  const room = LINE_BYTES_MAX - head.length - 3;
  let part = "";
  for (const pair of pairs) {
    if (pair.length > room) {
      warn(pair.slice(0, 64), `${pair.slice(0, 64)}… is skipped: the name is too long`);
      continue;
    }
    if (part && part.length + 1 + pair.length > room) {
      writeLine(`${head}${part}}}\n`);
      part = "";
    }
    part += part ? `,${pair}` : pair;
  }
  if (part) writeLine(`${head}${part}}}\n`);
}

function writeLine(line: string): void {
  const fd = openChannel();
  if (fd !== null && send(fd, Buffer.from(line, "latin1")) !== "closed") return;
  if (off) return;
  // A truncated record left a line without an end.
  const how = send(1, Buffer.from(torn ? `\n${line}` : line, "latin1"));
  torn = how === "torn";
  if (how === "closed") off = true;
}

/** The pipe for records; while it is missing, it is searched at most once a second. */
function openChannel(): number | null {
  const path = process.env["SVC_RECORDS"] ?? "";
  if (path === "") return null;
  if (channel !== null) {
    try {
      const { dev, ino } = fstatSync(channel.fd);
      if (dev === channel.dev && ino === channel.ino) return channel.fd;
    } catch {
      // The script has closed the descriptor.
    }
    channel = null;
  }
  if (performance.now() < channelRetryAt) return null;
  let why = "it is not a pipe";
  try {
    const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    const found = fstatSync(fd);
    if (found.isFIFO()) {
      channel = { fd, dev: found.dev, ino: found.ino };
      return fd;
    }
    closeSync(fd);
  } catch (e) {
    why = (e as NodeJS.ErrnoException).code ?? String(e);
  }
  channelRetryAt = performance.now() + 1_000;
  warn("channel", `metrics are sent by stdout, because their pipe (${path}) is not usable: ${why}`);
  return null;
}

/** Writes within a second, at once while `stalled`. `closed`: the pipe has no reader any more. */
function send(fd: number, bytes: Buffer): "sent" | "dropped" | "torn" | "closed" {
  const begun = performance.now();
  for (let done = 0; done < bytes.length;) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (e) {
      const code = (e as NodeJS.ErrnoException).code;
      const waitMs = stalled && done === 0 ? 0 : WAIT_MS_MAX;
      if (code === "EAGAIN" && performance.now() - begun < waitMs) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
        continue;
      }
      if (code !== "EAGAIN" && fd !== 1) return "closed";
      stalled = code === "EAGAIN";
      warn(
        "write",
        code === "EAGAIN"
          ? "a record was dropped: the output is full"
          : `turned off: the output cannot be written (${code})`,
      );
      return code === "EAGAIN" ? (done > 0 ? "torn" : "dropped") : "closed";
    }
  }
  stalled = false;
  return "sent";
}

function number(value: unknown): string | null {
  if (typeof value === "boolean") return value ? "1" : "0";
  if (typeof value === "bigint") return number(Number(value));
  if (typeof value !== "number") return null;
  return Number.isFinite(value)
    ? String(value)
    : `"${Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity"}"`;
}

/** A JSON string in pure ASCII, so that characters are bytes. */
const ascii = (text: string): string =>
  JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

function warn(about: string, text: string): void {
  if (warned.has(about) || warned.size > 1_000) return;
  warned.add(about);
  try {
    writeSync(2, `svc.log: ${text}\n`);
  } catch {
    // stderr has no reader.
  }
}
