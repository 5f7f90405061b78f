// Files that change all the time: which parts are downloaded while the script still writes.

import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DEADLINE_MS } from "../../deadline.ts";
import type { CheckpointFile } from "../../../src/schemas/job.ts";
import { fetchFile, hashFile, listFiles, readPieces } from "../../../src/providers/local/checkpoint-files.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import { readInProgress, STALE_MS } from "../../../src/steps/checkpoints/growing-files.ts";
import type { CheckpointHost } from "../../../src/steps/checkpoints/home-names.ts";
import { lastComplete } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const { signal } = new AbortController();
let top: string;
let source: string;
let targetDir: string;
let now: number;
let requests: string[];
let recorded: Map<string, CheckpointFile>;
let made: CheckpointCollector;

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "svc-growing-"));
  source = join(top, "source");
  targetDir = join(top, "home");
  mkdirSync(source);
  now = 1_000;
  requests = [];
  recorded = new Map();
  made = collector();
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

const host: CheckpointHost = {
  listCheckpoints: () => (requests.push("list"), listFiles(source, signal)),
  fetchCheckpoint: (file, target) => (requests.push(`fetch ${file.path}`), fetchFile(source, file, target)),
  readPieces: (pieces) => (requests.push("pieces"), readPieces(source, pieces)),
  hashCheckpoint: (file) => (requests.push("hash"), hashFile(source, file)),
};

const announced = new Map<string, number>();
const collector = () =>
  new CheckpointCollector({
    targetDir,
    now: () => now,
    announced: () => announcements(announced),
  });

async function scan(options: { final?: boolean; afterMs?: number; from?: CheckpointHost } = {}): Promise<void> {
  now += options.afterMs ?? SETTLE_MS;
  await made.scan(options.from ?? host, {
    final: options.final ?? false,
    announced: new Set(),
    signal,
    record: async (files, removed) => {
      for (const path of removed) recorded.delete(path);
      for (const file of files) recorded.set(file.path, file);
    },
  });
}

/** Writes the file and gives it another time, however coarse the file system's times are. */
function put(path: string, content: string | Buffer): void {
  mkdirSync(dirname(join(source, path)), { recursive: true });
  writeFileSync(join(source, path), content);
}
const grow = (path: string, more: string | Buffer) => appendFileSync(join(source, path), more);
const home = (path: string): string => readFileSync(join(targetDir, path), "latin1");
const there = (path: string): string => readFileSync(join(source, path), "latin1");
const resumable = async () =>
  (await lastComplete({ job: "a", checkpoints: targetDir, announced: new Set(announced.keys()), nodes: 1 }))?.name ??
  null;

describe("a file that only grows", () => {
  it("is downloaded by offset as it grows, and is complete once it rests", async () => {
    put("runs/events.out.tfevents", "event 0\n");
    await scan();
    for (let i = 1; i < 6; i++) {
      grow("runs/events.out.tfevents", `event ${i}\n`);
      await scan();
      expect(home("runs/events.out.tfevents")).toBe(there("runs/events.out.tfevents"));
      expect(recorded.get("runs/events.out.tfevents")).toMatchObject({ in_progress: true });
    }
    expect(await readInProgress(targetDir)).toEqual(new Set(["runs/events.out.tfevents"]));
    await scan();
    expect(recorded.get("runs/events.out.tfevents")).not.toHaveProperty("in_progress");
    expect(await readInProgress(targetDir)).toEqual(new Set());
    expect(requests.filter((r) => r.startsWith("fetch"))).toEqual([]);
  });

  it("is downloaded also during the long download of a large file, and nothing is downloaded twice", async () => {
    put("large.pt", "w".repeat(10_000));
    put("history.csv", "step,loss\n");
    made = new CheckpointCollector({ targetDir, now: () => now, followEveryMs: 5 });
    await scan();
    let rows = 0;
    const slow: CheckpointHost = {
      ...host,
      fetchCheckpoint: async (file, target) => {
        while (rows < 5) {
          const row = `${rows++},0.5\n`;
          grow("history.csv", row);
          const isHome = () => existsSync(join(targetDir, "history.csv")) && home("history.csv").endsWith(row);
          await vi.waitUntil(isHome, { timeout: DEADLINE_MS });
        }
        await fetchFile(source, file, target);
      },
    };
    now += SETTLE_MS;
    grow("history.csv", "one more\n");
    await made.scan(slow, {
      final: false,
      announced: new Set(),
      signal,
      record: async (files) => files.forEach((file) => recorded.set(file.path, file)),
    });
    expect(rows).toBe(5);
    expect(home("large.pt")).toBe(there("large.pt"));
    expect(recorded.get("history.csv")).toMatchObject({ in_progress: true });
    await scan({ final: true });
    expect(home("history.csv")).toBe(there("history.csv"));
    expect(recorded.get("history.csv")).not.toHaveProperty("in_progress");
  });

  it("costs one request per scan, together with 99 others", async () => {
    const names = Array.from({ length: 100 }, (_, i) => `run${i}/history.csv`);
    for (const name of names) put(name, "step,loss\n");
    await scan();
    for (let i = 0; i < 3; i++) {
      for (const name of names) grow(name, `${i},0.5\n`);
      requests = [];
      await scan();
      expect(requests).toEqual(["list", "pieces"]);
      for (const name of names) expect(home(name)).toBe(there(name));
    }
  });

  it("is not appended to old bytes when it was truncated and rewritten, whatever its length", async () => {
    put("log.jsonl", "old ".repeat(1_000));
    await scan();
    grow("log.jsonl", "old ".repeat(10));
    await scan();
    expect(home("log.jsonl")).toBe(there("log.jsonl"));
    put("log.jsonl", "new ".repeat(2_000));
    await scan({ afterMs: STALE_MS });
    expect(home("log.jsonl")).toBe("new ".repeat(2_000));
  });

  it("is resumed by another process at many megabytes, and is compared as a whole when it rests", async () => {
    const content = randomBytes(9_000_000);
    put("big.bin", content.subarray(0, 1_000));
    await scan();
    grow("big.bin", content.subarray(1_000, 6_000_000));
    await scan();
    expect(home("big.bin").length).toBe(6_000_000);
    grow("big.bin", content.subarray(6_000_000));
    made = collector();
    requests = [];
    await scan({ final: true });
    expect(home("big.bin")).toBe(content.toString("latin1"));
    expect(requests.filter((r) => r.startsWith("fetch"))).toEqual([]);

    // The middle of the file differs from the downloaded part, so svc fetches all of it.
    put("edited.bin", content.subarray(0, 1_000));
    await scan();
    grow("edited.bin", content.subarray(1_000, 4_000_000));
    await scan();
    const edited = Buffer.from(content);
    edited.fill(7, 2_000_000, 2_000_100);
    put("edited.bin", edited);
    await scan({ final: true });
    expect(home("edited.bin")).toBe(edited.toString("latin1"));
  });

  it("does not change its hard links, such as those of a set or of a resumed run's source", async () => {
    put("ckpt/notes.csv", "1\n");
    put("ckpt/.metadata", "done");
    await scan();
    await scan();
    expect(await resumable()).toBe("ckpt");
    grow("ckpt/notes.csv", "2\n");
    await scan();
    expect(home("ckpt/notes.csv")).toBe("1\n2\n");
    const found = await lastComplete({ job: "a", checkpoints: targetDir, announced: new Set(), nodes: 1 });
    const notes = found!.files.find(({ path }) => path === "ckpt/notes.csv")!;
    expect(readFileSync(join(notes.root, notes.path), "utf8")).toBe("1\n");
  });
});

describe("a file that is overwritten again and again", () => {
  it("is copied as a consistent version, from time to time", async () => {
    put("state.json", JSON.stringify({ step: 0 }));
    await scan();
    let copies = 0;
    let asked = 0;
    for (let i = 1; i <= 12; i++) {
      put("state.json", JSON.stringify({ step: i, text: "x".repeat(i % 3) }));
      requests = [];
      await scan();
      copies += home("state.json") === there("state.json") ? 1 : 0;
      asked += requests.includes("pieces") ? 1 : 0;
      expect(JSON.parse(home("state.json"))).toMatchObject({ step: expect.any(Number) as number });
    }
    expect(copies).toBeGreaterThanOrEqual(4);
    expect(asked).toBeLessThan(12);
    expect(await resumable()).toBeNull();
  });

  it("is left for the next scan if it changes while it is read", async () => {
    put("state.json", "the first version");
    await scan();
    put("state.json", "the second");
    // The machine reads the file up to the length that it had, and finds that it is longer by then.
    const changing: CheckpointHost = {
      ...host,
      readPieces: async (pieces) =>
        (await readPieces(source, pieces)).map((piece) => piece && { ...piece, size: piece.size + 1 }),
    };
    await scan({ afterMs: STALE_MS, from: changing });
    expect(existsSync(join(targetDir, "state.json"))).toBe(false);
    await scan({ afterMs: STALE_MS });
    expect(home("state.json")).toBe("the second");
  });

  it("stays resumable in its last complete version, while torn copies of it arrive", async () => {
    // A format that does not show whether the file is complete.
    put("last.pt", "complete".repeat(100));
    await scan();
    await scan();
    expect(await resumable()).toBe("last.pt");
    for (let i = 0; i < 5; i++) {
      put("last.pt", randomBytes(500 + i));
      await scan({ afterMs: STALE_MS });
    }
    expect(home("last.pt")).toBe(there("last.pt"));
    expect(recorded.get("last.pt")).toMatchObject({ in_progress: true });
    const found = await lastComplete({ job: "a", checkpoints: targetDir, announced: new Set(), nodes: 1 });
    expect(found?.files.map(({ root, path }) => readFileSync(join(root, path), "latin1"))).toEqual([
      "complete".repeat(100),
    ]);
    await scan();
    await scan();
    expect(await resumable()).toBe("last.pt");
    expect(home("last.pt")).toBe(there("last.pt"));
    const after = await lastComplete({ job: "a", checkpoints: targetDir, announced: new Set(), nodes: 1 });
    expect(after?.files.map(({ root }) => root)).toEqual([targetDir]);
  });

  it("is complete at once if its format proves that", async () => {
    const zip = (text: string) =>
      Buffer.concat([Buffer.from("PK\x03\x04" + text), Buffer.from("PK\x05\x06" + "\0".repeat(18), "latin1")]);
    for (let i = 0; i < 4; i++) {
      put("next.pt", zip(`weights ${i} ${"w".repeat(i)}`));
      renameSync(join(source, "next.pt"), join(source, "last.pt"));
      await scan({ afterMs: STALE_MS });
    }
    expect(home("last.pt")).toBe(there("last.pt"));
    expect(recorded.get("last.pt")).not.toHaveProperty("in_progress");
    expect(await resumable()).toBe("last.pt");
  });
});

it("A file whose folder became a file, or the other way round, is replaced by the newer one", async () => {
  put("model", "a file");
  put("other/part.bin", "in a folder");
  await scan();
  await scan();
  expect([...recorded.keys()].toSorted()).toEqual(["model", "other/part.bin"]);
  rmSync(join(source, "model"));
  rmSync(join(source, "other"), { recursive: true });
  put("model/weights.bin", "now a folder");
  put("other", "now a file");
  await scan();
  await scan();
  expect([...recorded.keys()].toSorted()).toEqual(["model/weights.bin", "other"]);
  expect([home("model/weights.bin"), home("other")]).toEqual(["now a folder", "now a file"]);
});
