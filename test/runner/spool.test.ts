// The log under load: floods, a limit with acknowledgements, a full disk. No byte is lost, and no byte comes twice.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { LocalHost } from "../../src/providers/local/local-host.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { ended, finish, never, newRun, processesWith, python, runnerPath, startRun, until, type TestRun } from "./harness.ts";

const MIB = 1 << 20;

/** Writes `bytes` bytes that never repeat within 4 GiB, and their SHA-256 into the file `hash` of its directory. */
const FLOOD = `
import hashlib, os, struct, sys
total, h, n = int(sys.argv[1]), hashlib.sha256(), 0
while total:
    block = b"".join(struct.pack(">I", i) for i in range(n, n + 16384))[:total]
    n += 16384; total -= len(block); h.update(block)
    while block: block = block[os.write(1, block):]
open(sys.argv[2], "w").write(h.hexdigest())
`;

const flood = (bytes: number, hashFile: string): string[] => [python, "-u", "-c", FLOOD, String(bytes), hashFile];

/** Pulls like a control plane: reads, acknowledges, waits for more; returns the hash and size of the received bytes. */
async function pull(run: TestRun, onPull?: (at: number) => void): Promise<{ sha256: string; bytes: number }> {
  const hash = createHash("sha256");
  let at = 0;
  for (;;) {
    const { bytes } = await run.host.readLog(at, MIB, never);
    if (bytes.length > 0) {
      hash.update(bytes);
      at += bytes.length;
      await run.host.ackLog(at, never);
      onPull?.(at);
      continue;
    }
    const status = await run.host.status(never);
    if (status?.phase !== "running" && at === status?.log_bytes) return { sha256: hash.digest("hex"), bytes: at };
    await run.host.follow({ offset: at, max: 0, seen: at, waitMs: 5_000 }, never);
  }
}

function spoolBytes(run: TestRun): number {
  const folder = join(run.runDir, "spool");
  return readdirSync(folder).reduce((sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0), 0);
}

describe("a flood", () => {
  it("passes 200 MB through a spool of 4 MiB, completely and in order, and keeps the spool small", async () => {
    const run = newRun([], { spool_cap_bytes: 4 * MIB });
    mkdirSync(run.runDir, { recursive: true });
    const hashFile = join(run.runDir, "hash");
    run.spec.argv = flood(200_000_000, hashFile);
    const begin = Date.now();
    await run.host.start(run.spec, {}, never);
    let largest = 0;
    const got = await pull(run, () => (largest = Math.max(largest, spoolBytes(run))));
    console.log(`200 MB through a 4 MiB spool in ${Date.now() - begin} ms; largest spool ${largest} bytes`);
    expect(got).toEqual({ sha256: readFileSync(hashFile, "utf8"), bytes: 200_000_000 });
    expect(largest).toBeLessThanOrEqual(8 * MIB);
    const { bytes, dropped = 0, times } = await run.host.readLog(0, 10, never);
    expect([bytes.length, dropped > 0, times[0]?.offset]).toEqual([10, true, dropped]);
  });

  it("blocks the script at the cap until the log is acknowledged, and a stop still works", async () => {
    const run = newRun([], { spool_cap_bytes: MIB });
    mkdirSync(run.runDir, { recursive: true });
    run.spec.argv = flood(50 * MIB, join(run.runDir, "hash"));
    await run.host.start(run.spec, {}, never);
    while ((await run.host.readLog(MIB - 1, 1, never)).bytes.length === 0) await run.host.follow({ offset: MIB - 1, max: 0, seen: MIB - 1, waitMs: 5_000 }, never);
    await run.host.follow({ offset: MIB, max: 0, seen: MIB, waitMs: 300 }, never);
    expect(spoolBytes(run)).toBe(MIB);
    await run.host.ackLog(MIB / 2, never);
    await run.host.follow({ offset: MIB, max: 0, seen: MIB, waitMs: 5_000 }, never);
    expect(spoolBytes(run)).toBeLessThanOrEqual(MIB * 1.5);
    await run.host.stop(0, never);
    const status = await ended(run);
    expect(status).toMatchObject({ phase: "exited", stopped: true });
    const rest = await run.host.readLog(MIB / 2, 100 * MIB, never);
    expect(rest.bytes.length).toBe((status.log_bytes ?? 0) - MIB / 2);
  });
});

describe("a new control plane", () => {
  it("re-attaches to a running run by its folder alone, continues where the old one was, and can end it", async () => {
    const run = await startRun("echo one; while ! [ -e go ]; do sleep 0.02; done; echo two; sleep 100", { cwd: mkdtempSync(join(tmpdir(), "svc-go-")) });
    await until(run, "one\n");
    const fresh = new LocalHost({ runDir: run.runDir, runnerPath, python });
    expect(await fresh.status(never)).toEqual(await run.host.status(never));
    const change = fresh.follow({ offset: 4, max: 0, seen: 4, waitMs: 10_000 }, never);
    writeFileSync(join(run.spec.cwd, "go"), "");
    await change;
    expect((await fresh.readLog(4, 100, never)).bytes.toString()).toBe("two\n");
    await fresh.stop(0, never);
    expect(await fresh.status(never)).toMatchObject({ phase: "exited", stopped: true, log_bytes: 8 });
    rmSync(run.spec.cwd, { recursive: true });
  });

  it("survives a script that replaces the folder of its log while it is watched", async () => {
    const run = await startRun(`echo up; sleep 0.3; mv "$SVC_RUN_DIR/spool" "$SVC_RUN_DIR/old"; ln -s spool "$SVC_RUN_DIR/spool"; echo more; sleep 100`);
    await until(run, "up\n");
    await expect(run.host.follow({ offset: 3, max: 0, seen: 3, waitMs: 5_000 }, never)).rejects.toMatchObject({ code: "ELOOP" });
    await run.host.stop(0, never);
  });

  it("notices growth by its watch and not by its timer, closes its watches, and obeys an abort", async () => {
    const run = newRun([]);
    mkdirSync(run.runDir, { recursive: true });
    const fifo = join(run.runDir, "fifo");
    spawnSync("mkfifo", [fifo]);
    run.spec.argv = [python, "-u", "-c", "import sys, time\nprint('up')\nfor l in open(sys.argv[1]): sys.stdout.write('%f\\n' % time.time())", fifo];
    await run.host.start(run.spec, {}, never);
    // One write for each line: print() writes the line end apart, and a read between the two would take it for a time.
    let at = (await until(run, "up\n")).length;
    const { openSync, writeSync, closeSync } = await import("node:fs");
    const fd = openSync(fifo, "w");
    const late: number[] = [];
    for (let i = 0; i < 10; i++) {
      const change = run.host.follow({ offset: at, max: 0, seen: at, waitMs: 10_000 }, never);
      await new Promise((resolve) => setTimeout(resolve, 20));
      writeSync(fd, "x\n");
      await change;
      const seen = Date.now();
      const { bytes } = await run.host.readLog(at, 100, never);
      at += bytes.length;
      late.push(seen - Number(bytes.toString()) * 1000);
    }
    late.sort((a, b) => a - b);
    console.log(`growth seen after ${late[5]?.toFixed(1)} ms (median of ${late.length})`);
    expect(late[5]).toBeLessThan(900); // the tick comes a second later
    const abort = new AbortController();
    const waiting = run.host.follow({ offset: at, max: 0, seen: at, waitMs: 60_000 }, abort.signal);
    abort.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve)); // handles close in the next turn
    expect(process.getActiveResourcesInfo().filter((r) => r === "FSEventWrap")).toEqual([]);
    closeSync(fd);
    expect((await finish(run)).status.exit_code).toBe(0);
  });
});

describe("a full disk", () => {

  it("loses nothing: the script waits, and continues when there is room again", { tags: "needs/mounts" }, async () => {
    const mount = mkdtempSync(join(tmpdir(), "svc-full-"));
    const hashFile = `${mount}.hash`;
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=3m", "svc-test", mount]).status).toBe(0);
    const run = newRun(flood(8 * MIB, hashFile), { cwd: "/", spool_cap_bytes: 64 * MIB }, mount);
    try {
      const ballast = join(mount, "ballast");
      writeFileSync(ballast, Buffer.alloc(MIB));
      await run.host.start(run.spec, {}, never);
      const err = join(run.runDir, "runner.err");
      while (!existsSync(err) || statSync(err).size === 0) {
        await run.host.follow({ offset: Number.MAX_SAFE_INTEGER, max: 0, seen: Number.MAX_SAFE_INTEGER, waitMs: 50 }, never);
        if ((await run.host.status(never))?.phase !== "running") throw new Error("ended on a full disk");
        if (spoolBytes(run) > 1.5 * MIB) break; // no space even for the error message
      }
      expect(existsSync(hashFile)).toBe(false);
      rmSync(ballast);
      // From here on only acknowledgements free space: the disk is smaller than the log.
      const got = await pull(run);
      expect(got).toEqual({ sha256: readFileSync(hashFile, "utf8"), bytes: 8 * MIB });
      expect(await ended(run)).toMatchObject({ phase: "exited", exit_code: 0 });
    } finally {
      await run.host.stop(0, never);
      spawnSync("umount", ["-l", mount]);
      rmSync(mount, { recursive: true, force: true });
      rmSync(hashFile, { force: true });
    }
  });

  /** Prints half of the pipe's capacity when the disk is already full, another half without a reader, and ends. */
  const LAST_WORDS = `
import os, sys, time
os.write(1, b"up\\n")
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
for n in range(2):
    os.write(1, b"%d" % n * 30000)
    time.sleep(0.3)
`;

  it("keeps the last output of a script that ends while its log waits for space", { tags: "needs/mounts" }, async () => {
    const mount = mkdtempSync(join(tmpdir(), "svc-last-"));
    const go = `${mount}.go`;
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "svc-test", mount]).status).toBe(0);
    const run = newRun([python, "-u", "-c", LAST_WORDS, go], { cwd: "/" }, mount);
    try {
      await run.host.start(run.spec, {}, never);
      await until(run, "up\n");
      const ballast = join(mount, "ballast");
      expect(() => writeFileSync(ballast, Buffer.alloc(4 * MIB))).toThrow("ENOSPC");
      writeFileSync(go, "");
      const { pid } = (await run.host.status(never)) ?? {};
      await expect.poll(() => processesWith(run.spec.nonce).includes(pid ?? 0), { timeout: DEADLINE_MS }).toBe(false);
      rmSync(ballast);
      const { status, log } = await finish(run);
      expect(status.exit_code).toBe(0);
      expect(log.toString()).toBe(`up\n${"0".repeat(30_000)}${"1".repeat(30_000)}`);
    } finally {
      await run.host.stop(0, never);
      spawnSync("umount", ["-l", mount]);
      rmSync(mount, { recursive: true, force: true });
      rmSync(go, { force: true });
    }
  });
});
