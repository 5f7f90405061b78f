// A checkpoint from a machine that sends other bytes than the file has. remote-host.test.ts tests a real link.

import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { SvcError, UnreadableFile } from "../../src/errors/index.ts";
import { AgentRefusal, type AgentClient } from "../../src/ssh/agent-client.ts";
import { fetchRemoteFile, partOf } from "../../src/ssh/fetch-file.ts";
import { never } from "./machine.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-fetch-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const content = randomBytes(9_000_000);
const target = join(folder, "weights.pt");

/** Fetches `content` from an agent whose answers `spoil` has changed. */
async function fetchWith(
  spoil: (piece: { at: number; bytes: Buffer; sha256: string }) => void,
  { of = content, size = of.length, signal = never }: { of?: Buffer; size?: number; signal?: AbortSignal } = {},
): Promise<void> {
  const call: AgentClient["call"] = (_op, args, schema) => {
    const { offset, max } = args as { offset: number; max: number };
    const bytes = Buffer.from(of.subarray(offset, offset + max));
    const piece = { at: offset, bytes, sha256: createHash("sha256").update(bytes).digest("hex") };
    spoil(piece);
    return Promise.resolve({ value: schema.parse({ sha256: piece.sha256 }), bytes: piece.bytes });
  };
  await fetchRemoteFile({
    machine: "m1",
    runDir: "/run",
    file: { path: "weights.pt", size, mtimeMs: 1_700_000_000_000, inode: 7 },
    target,
    agent: () => Promise.resolve({ call } as unknown as AgentClient),
    signal,
  });
}

test("a file is complete if it arrives as it was read", async () => {
  await fetchWith(() => undefined);
  expect(readFileSync(target).equals(content)).toBe(true);
  rmSync(target);
});

test.each([
  ["one bit in a late piece", ({ at, bytes }) => at > 1_000_000 && bytes.writeUInt8((bytes[5] ?? 0) ^ 1, 5)],
  ["a hash of something else", (piece) => (piece.sha256 = "0".repeat(64))],
  ["a piece that is too short", (piece) => (piece.bytes = piece.bytes.subarray(1))],
] satisfies [string, (piece: { at: number; bytes: Buffer; sha256: string }) => unknown][])(
  "%s spoils all of it",
  async (_, spoil) => {
    await expect(fetchWith(spoil)).rejects.toMatchObject({ code: "machine_unfit" });
    expect(existsSync(target)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  },
);

test("an abandoned download resumes with the bytes that had arrived", async () => {
  const lost = new SvcError("ssh_unreachable", { machine: "m1", why: "connection refused" });
  const controller = new AbortController();
  const cut = fetchWith(
    ({ at }) => {
      if (at < 4_000_000) return;
      controller.abort(lost);
      throw lost;
    },
    { signal: controller.signal },
  );
  await expect(cut).rejects.toMatchObject({ name: "AbortError" });
  const had = statSync(partOf(target)).size;
  expect(had).toBeGreaterThan(1_000_000);
  expect(had).toBeLessThanOrEqual(content.length);
  expect(existsSync(target)).toBe(false);
  const asked: number[] = [];
  await fetchWith(({ at }) => asked.push(at));
  expect(Math.min(...asked)).toBe(had);
  expect(readFileSync(target).equals(content)).toBe(true);
  rmSync(target);
});

test("an unreadable file is distinguished from an unusable machine", async () => {
  const refuse = (kind: string) => () => {
    throw new AgentRefusal(kind, "Input/output error");
  };
  await expect(fetchWith(refuse("unreadable"))).rejects.toBeInstanceOf(UnreadableFile);
  await expect(fetchWith(refuse("failed"))).rejects.not.toBeInstanceOf(UnreadableFile);
  expect(readdirSync(folder)).toEqual([]);
});

test("a file larger than the local disk is not begun", async () => {
  let asked = 0;
  await expect(fetchWith(() => (asked += 1), { size: 2 ** 52 })).rejects.toMatchObject({ code: "disk_full" });
  expect([asked, readdirSync(folder)]).toEqual([0, []]);
});

/** Large enough for a sync during the download. */
const large = Buffer.alloc(80 << 20, 7);

/** The first sync during the download reports that an earlier write failed; as on Linux, later ones succeed. */
async function failOneSync(code: string): Promise<{ syncs: () => number }> {
  const probe = await open(join(folder, "probe"), "w");
  const syncs = vi.spyOn(Object.getPrototypeOf(probe) as FileHandle, "datasync");
  await probe.close();
  rmSync(join(folder, "probe"));
  syncs.mockImplementationOnce(() => Promise.reject(Object.assign(new Error(`${code}: write failed`), { code })));
  return { syncs: () => syncs.mock.calls.length };
}

test.each([
  ["EIO", { code: "store_failing", message: `The disk failed while svc was reading or writing ${folder} (EIO).` }],
  ["ENOSPC", { code: "disk_full" }],
  ["EDQUOT", { code: "disk_full" }],
])(
  "a write of a large file that fails with %s when it is synced fails the download, and nothing of it stays",
  async (code, error) => {
    const { syncs } = await failOneSync(code);
    await expect(fetchWith(() => undefined, { of: large })).rejects.toMatchObject(error);
    expect([syncs(), readdirSync(folder)]).toEqual([1, []]);
    vi.restoreAllMocks();
    await fetchWith(() => undefined, { of: large });
    expect(readFileSync(target).equals(large)).toBe(true);
    rmSync(target);
  },
);

test.each(["the link breaks", "the download is aborted"])(
  "a failed write of a large file is not forgotten when %s right after it",
  async (what) => {
    const { syncs } = await failOneSync("EIO");
    const lost = new SvcError("ssh_unreachable", { machine: "m1", why: "connection refused" });
    const controller = new AbortController();
    let cuts = 0;
    const cut = fetchWith(
      () => {
        if (syncs() === 0 || cuts++ > 0) return;
        if (what === "the download is aborted") controller.abort(lost);
        throw lost;
      },
      { of: large, signal: controller.signal },
    );
    await expect(cut).rejects.toThrow();
    expect([cuts > 0, readdirSync(folder)]).toEqual([true, []]);
    vi.restoreAllMocks();
  },
);
