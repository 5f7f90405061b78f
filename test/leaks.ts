// Loaded before each test file: a file that leaves a process, a listening server or a temporary folder behind is
// reported, and fails if SVC_TEST_LEAKS=fail is set, as vitest.config.ts does for the quick tests.
//
// L1. Each file has its own temporary folder (TMPDIR), so that leftovers there belong to it; the folder is removed with
//     the file.
// L2. Processes that a file starts inherit its mark, even if they get another parent.
// L3. Processes that are about to end get time: only those that stay count.

import { mkdtempSync, chmodSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { DEADLINE_MS } from "./deadline.ts";

const FAILS = process.env["SVC_TEST_LEAKS"] === "fail";
/** A report may be wrong on a busy computer, but a failure must be right. */
const WAIT_MS = FAILS ? DEADLINE_MS : 3_000;
/** Shared by every process of some tools; no test creates them. */
const SHARED = /^(node-compile-cache|tsx-|v8-compile-cache)/;

const folder = mkdtempSync(join(realpathSync(tmpdir()), "svc"));
// As /tmp itself: tests that act as another user reach it too.
chmodSync(folder, 0o1777);
const mark = `SVC_TEST_MARK=${folder}`;
process.env["TMPDIR"] = folder;
process.env["SVC_TEST_MARK"] = folder;

function processes(): string[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc")
    .filter((name) => /^[0-9]+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => read(`/proc/${pid}/environ`).split("\0").includes(mark))
    .map((pid) => `process ${pid}: ${read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").slice(0, 200)}`);
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    // The process has ended meanwhile, or belongs to another user.
    return "";
  }
}

/** Node has no public list of active handles that tells a server from another handle. */
function servers(): string[] {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): unknown[] };
  return handles
    .call(process)
    .filter((handle): handle is Server => handle instanceof Server && handle.listening)
    .map((server) => `server at ${JSON.stringify(server.address())}`);
}

const folders = (): string[] =>
  readdirSync(folder)
    .filter((name) => !SHARED.test(name))
    .map((name) => `temporary ${join(folder, name)}`);

afterAll(async () => {
  const left = (): string[] => [...processes(), ...servers(), ...folders()];
  const end = performance.now() + WAIT_MS;
  let found = left();
  while (found.length > 0 && performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    found = left();
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  if (found.length === 0) return;
  const report = `This test file left behind:\n${found.join("\n")}`;
  if (FAILS) throw new Error(report);
  console.error(report);
}, 3 * DEADLINE_MS);
