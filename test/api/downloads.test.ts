import { createHash, randomBytes } from "node:crypto";
import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseRange } from "../../src/api/send-file.ts";
import { serve, type PlaneDouble } from "./double.ts";
import { ask, raw } from "./wire.ts";

function checkpoint(plane: PlaneDouble, id: string, path: string, body: string | Buffer): string {
  const place = join(plane.home, "artifacts", id, "checkpoints", path);
  mkdirSync(dirname(place), { recursive: true });
  writeFileSync(place, body);
  const entry = { path, size: body.length, modified_at: plane.startedAt };
  plane.files.set(id, [...(plane.files.get(id) ?? []), { entry, path: place }]);
  return place;
}

async function setUp(path = "sub/model.pt", body: string | Buffer = "0123456789") {
  const { plane, server } = await serve();
  const { id } = plane.addJob();
  const place = checkpoint(plane, id, path, body);
  const url = (name: string): string => `/jobs/${id}/checkpoints/${name}`;
  const get = (name: string, headers: Record<string, string> = {}): ReturnType<typeof ask> =>
    ask({ port: server.port, path: url(name), headers });
  return { plane, server, id, place, url, get };
}

describe("checkpoint files", () => {
  it("sends raw bytes, never as a type that a browser would display", async () => {
    const { get, id, plane, server } = await setUp("evil page<b>é'.html", "<script>alert(1)</script>");
    const reply = await get(encodeURIComponent("evil page<b>é'.html"));
    expect([reply.status, reply.text]).toEqual([200, "<script>alert(1)</script>"]);
    expect(reply.headers).toMatchObject({
      "content-type": "application/octet-stream",
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox; default-src 'none'",
      "content-disposition": `attachment; filename="evil page_b___.html"; filename*=UTF-8''evil%20page%3Cb%3E%C3%A9%27.html`,
      "content-length": "25",
    });
    expect((await ask({ port: server.port, path: `/jobs/${id}/checkpoints` })).json).toEqual({
      files: plane.reads.checkpoints(id),
    });
  });

  it.each([
    "a b.pt",
    "100%25.pt",
    "%2e%2e.pt",
    "x?y#z.pt",
    "naïve-日本.pt",
    "deep/er/file.pt",
    "semi;colon&amp.pt",
    'quo"te\\back.pt',
    "new\nline.pt",
  ])("finds the file named %j", async (name) => {
    const { get } = await setUp(name, "body");
    const reply = await get(name.split("/").map(encodeURIComponent).join("/"));
    expect([reply.status, reply.text]).toEqual([200, "body"]);
    expect((await get(encodeURIComponent(name))).status).toBe(200);
    expect(reply.headers["content-disposition"]).not.toMatch(/[\r\n]|filename="[^"]*"[^;]/);
  });

  it.each([
    "../../../svc.db",
    "..%2f..%2f..%2fsvc.db",
    "%2e%2e/%2e%2e/token",
    "..\\..\\token",
    "..%5c..%5ctoken",
    "%252e%252e%252ftoken",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "sub/../sub/model.pt",
    "sub//model.pt",
    "./sub/model.pt",
    "sub/model.pt/",
    "sub/model.pt%00.txt",
    "sub/model.pt;x",
    "SUB/model.pt",
    "",
    "sub",
    "file:///etc/passwd",
    "sub/model.pt%20",
  ])("has nothing at %s", async (name) => {
    const { plane, server, url } = await setUp();
    writeFileSync(join(plane.home, "token"), "SECRET");
    writeFileSync(join(plane.home, "svc.db"), "SECRET");
    const answer = await raw(
      server.port,
      `GET ${url(name)} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nConnection: close\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 40[04] /);
    expect(answer).not.toContain("SECRET");
    expect(answer).not.toContain("0123456789");
  });

  it("does not follow a symlink in place of a recorded file or of its folder", async () => {
    const { plane, get, place } = await setUp();
    writeFileSync(join(plane.home, "token"), "SECRET");
    rmSync(place);
    symlinkSync(join(plane.home, "token"), place);
    expect((await get("sub/model.pt")).json.code).toBe("file_not_found");

    const elsewhere = join(plane.home, "elsewhere");
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, "model.pt"), "SECRET");
    rmSync(dirname(place), { recursive: true });
    symlinkSync(elsewhere, dirname(place));
    expect((await get("sub/model.pt")).json.code).toBe("file_not_found");
    rmSync(dirname(place));
    renameSync(elsewhere, dirname(place));
    expect((await get("sub/model.pt")).text).toBe("SECRET");
  });

  it("does not open a FIFO, a folder, or a path outside of the home", async () => {
    const { plane, get, place, id } = await setUp();
    rmSync(place);
    execFileSync("mkfifo", [place]);
    expect((await get("sub/model.pt")).json.code).toBe("file_not_found");
    rmSync(place);
    mkdirSync(place);
    expect((await get("sub/model.pt")).json.code).toBe("file_not_found");
    rmSync(place, { recursive: true });
    expect((await get("sub/model.pt")).json.code).toBe("file_not_found");
    plane.files.set(id, [{ entry: { path: "p", size: 1, modified_at: plane.startedAt }, path: "/etc/passwd" }]);
    expect((await get("p")).json.code).toBe("file_not_found");
  });
});

describe("ranges", () => {
  it.each<[string, number, string]>([
    ["bytes=0-3", 206, "0123"],
    ["bytes=4-", 206, "456789"],
    ["bytes=-2", 206, "89"],
    ["bytes=-99", 206, "0123456789"],
    ["bytes=9-9", 206, "9"],
    ["bytes=5-99", 206, "56789"],
    ["bytes=0-0,2-3", 200, "0123456789"],
    ["lines=0-1", 200, "0123456789"],
    ["bytes=5-2", 200, "0123456789"],
    ["bytes=a-b", 200, "0123456789"],
    ["bytes=-", 200, "0123456789"],
  ])("answers %s with %i", async (range, status, text) => {
    const { get } = await setUp();
    const reply = await get("sub/model.pt", { range });
    expect([reply.status, reply.text, reply.headers["content-length"]]).toEqual([status, text, String(text.length)]);
    if (status === 206) expect(reply.headers["content-range"]).toMatch(/^bytes \d-9\/10$|^bytes 0-3\/10$/);
  });

  it.each(["bytes=10-", "bytes=99-100", "bytes=-0"])("answers %s with 416 and the size", async (range) => {
    const { get } = await setUp();
    const reply = await get("sub/model.pt", { range });
    expect([reply.status, reply.json.code, reply.headers["content-range"]]).toEqual([
      416,
      "range_not_satisfiable",
      "bytes */10",
    ]);
  });

  it("obeys If-Range, so that halves of two files are never joined", async () => {
    const { get, place } = await setUp();
    const first = await get("sub/model.pt", { range: "bytes=0-4" });
    const etag = first.headers.etag as string;
    expect((await get("sub/model.pt", { range: "bytes=5-", "if-range": etag })).text).toBe("56789");
    writeFileSync(place, "abcdefghijk");
    const whole = await get("sub/model.pt", { range: "bytes=5-", "if-range": etag });
    expect([whole.status, whole.text]).toEqual([200, "abcdefghijk"]);
  });

  it("sends an empty file, and only the head on request", async () => {
    const { get, server, url } = await setUp("empty.pt", "");
    expect([
      (await get("empty.pt")).status,
      (await get("empty.pt")).headers["content-length"],
      (await get("empty.pt", { range: "bytes=0-" })).status,
    ]).toEqual([200, "0", 416]);
    expect((await ask({ port: server.port, path: url("empty.pt"), method: "HEAD" })).headers["content-length"]).toBe(
      "0",
    );
    expect(parseRange("bytes=999999999999999999-", 10)).toBeNull();
  });

  it("resumes a large file that was cut in the middle, byte for byte", async () => {
    const body = randomBytes(5 * 1024 * 1024);
    const { server, url, get } = await setUp("big.bin", body);
    const had = await new Promise<Buffer>((resolve) => {
      const parts: Buffer[] = [];
      const socket = connect(server.port, "127.0.0.1", () =>
        socket.write(`GET ${url("big.bin")} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n\r\n`),
      );
      socket.on("data", (part: Buffer) => {
        parts.push(part);
        if (parts.reduce((sum, p) => sum + p.length, 0) > 1_000_000) socket.destroy();
      });
      socket.on("close", () => resolve(Buffer.concat(parts)));
    });
    const start = had.subarray(had.indexOf("\r\n\r\n") + 4);
    const rest = await new Promise<Buffer>((resolve) => {
      const parts: Buffer[] = [];
      void fetch(`${server.url}${url("big.bin")}`, { headers: { range: `bytes=${start.length}-` } }).then(
        async (response) => {
          for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) parts.push(Buffer.from(part));
          resolve(Buffer.concat(parts));
        },
      );
    });
    const sum = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
    expect(sum(Buffer.concat([start, rest]))).toBe(sum(body));
    expect((await get("big.bin")).status).toBe(200);
  });
});
