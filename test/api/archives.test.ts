import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { serve } from "./double.ts";

describe("archives of a run", () => {
  it("contain every complete checkpoint under its own name, and no file behind a symlink", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    const long = `${"deep/".repeat(30)}weights é.bin`;
    const big = Buffer.alloc(700_001, 7);
    const files: [string, Buffer][] = [
      ["a.bin", Buffer.from("a")],
      [long, big],
      ["empty", Buffer.alloc(0)],
    ];
    plane.files.set(
      id,
      files.map(([path, bytes]) => {
        const at = join(plane.home, "artifacts", id, "checkpoints", path);
        mkdirSync(dirname(at), { recursive: true });
        writeFileSync(at, bytes);
        return { entry: { path, size: bytes.length, modified_at: "2026-01-02T03:04:05.000Z" }, path: at };
      }),
    );
    const reply = await fetch(`${server.url}/jobs/${id}/checkpoints.tar`);
    expect(reply.headers.get("content-disposition")).toBe(`attachment; filename="${id}-checkpoints.tar"`);
    const folder = mkdtempSync(join(tmpdir(), "svc-tar-"));
    try {
      writeFileSync(join(folder, "all.tar"), Buffer.from(await reply.arrayBuffer()));
      execFileSync("tar", ["-xf", "all.tar"], { cwd: folder });
      for (const [path, bytes] of files) expect(readFileSync(join(folder, path)).equals(bytes)).toBe(true);
    } finally {
      rmSync(folder, { recursive: true });
    }
    const digest = await fetch(`${server.url}/jobs/${id}/checkpoint-digest?path=${encodeURIComponent(long)}`);
    expect(await digest.json()).toEqual({
      path: long,
      size: big.length,
      sha256: createHash("sha256").update(big).digest("hex"),
    });
    expect((await fetch(`${server.url}/jobs/${id}/checkpoint-digest?path=../svc.db`)).status).toBe(404);

    const link = join(plane.home, "artifacts", id, "checkpoints", "link");
    symlinkSync("/etc/passwd", link);
    plane.files
      .get(id)
      ?.push({ entry: { path: "link", size: 1, modified_at: "2026-01-02T03:04:05.000Z" }, path: link });
    const cut = await fetch(`${server.url}/jobs/${id}/checkpoints.tar`)
      .then((r) => r.arrayBuffer())
      .then(
        () => "whole",
        () => "cut",
      );
    expect(cut).toBe("cut");
  });

  it("stops reading a checkpoint when the caller has left", async () => {
    const { plane, server } = await serve();
    const { id } = plane.addJob();
    const at = join(plane.home, "artifacts", id, "checkpoints", "large.bin");
    mkdirSync(dirname(at), { recursive: true });
    writeFileSync(at, "");
    truncateSync(at, 40 * 1024 ** 3);
    plane.files.set(id, [{ entry: { path: "large.bin", size: 1, modified_at: plane.startedAt }, path: at }]);
    const isOpen = (): boolean =>
      readdirSync("/proc/self/fd").some((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`) === at;
        } catch {
          return false;
        }
      });
    const gone = new AbortController();
    const asked = fetch(`${server.url}/jobs/${id}/checkpoint-digest?path=large.bin`, { signal: gone.signal });
    await expect.poll(isOpen).toBe(true);
    gone.abort();
    await expect(asked).rejects.toMatchObject({ name: "AbortError" });
    await expect.poll(isOpen, { timeout: DEADLINE_MS }).toBe(false);
  });
});
