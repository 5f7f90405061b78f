// A request that is refused before all of it has arrived: the caller still reads the whole answer, and cannot hold the connection.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { serve } from "./double.ts";

const MIB = 1024 * 1024;
/** More than the buffers of both sockets hold. */
const BODY_BYTES = 24 * MIB;

/** Sends all bytes before it reads any of the answer, as a caller without a second thread does. */
async function sendsThenReads(port: number, head: string, body: Buffer): Promise<string> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  await once(socket, "connect");
  socket.write(head);
  for (let at = 0; at < body.length; at += 64 * 1024)
    if (!socket.write(body.subarray(at, at + 64 * 1024))) await once(socket, "drain");
  let answer = "";
  socket.setEncoding("latin1").on("data", (text: string) => (answer += text));
  await answered(() => answer, socket);
  socket.destroy();
  return answer;
}

/** Resolves when the answer is complete by its own length; rejects if the connection ends before that. */
async function answered(text: () => string, socket: Socket): Promise<void> {
  const isWhole = (): boolean => {
    const [, length, body] = /content-length: (\d+)\r\n[^]*?\r\n\r\n([^]*)$/i.exec(text()) ?? [];
    return body !== undefined && body.length === Number(length);
  };
  await new Promise<void>((resolve, reject) => {
    const look = (): void => {
      if (isWhole()) resolve();
    };
    socket.on("data", look).on("error", reject);
    socket.on("close", () => reject(new Error(`the connection ended after: ${text()}`)));
  });
}

const announced = `Content-Length: ${BODY_BYTES}\r\n\r\n`;
const JSON_TYPE = "Content-Type: application/json\r\n";

describe("A caller that sends its whole body first reads the answer", () => {
  it.each<[string, string, (port: number) => string]>([
    [
      "413: too large, as announced",
      "body_too_large",
      (port) => `POST /jobs HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${JSON_TYPE}${announced}`,
    ],
    [
      "403: for another host",
      "host_refused",
      () => `POST /jobs HTTP/1.1\r\nHost: evil.example\r\n${JSON_TYPE}${announced}`,
    ],
    [
      "415: of another type",
      "unsupported_media_type",
      (port) => `POST /jobs HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: text/plain\r\n${announced}`,
    ],
    [
      "404: to an unknown path, on a connection that closes",
      "not_found",
      (port) => `POST /nope HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n${JSON_TYPE}${announced}`,
    ],
    [
      "404: a refused upgrade",
      "not_found",
      (port) =>
        `GET /nope HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${announced}`,
    ],
    ["400: not HTTP", "malformed_request", () => "this is not HTTP\r\n\r\n"],
    ["431: headers without end", "headers_too_large", () => "GET / HTTP/1.1\r\nX: "],
  ])("%s", async (what, code, head) => {
    const { server } = await serve();
    const answer = await sendsThenReads(server.port, head(server.port), Buffer.alloc(BODY_BYTES, "x"));
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${what.slice(0, 3)} `));
    expect(answer).toContain(`"code":"${code}"`);
  });

  it("413: too large, in chunks without an announced length", async () => {
    const { server } = await serve();
    const head = `POST /jobs HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n${JSON_TYPE}Transfer-Encoding: chunked\r\n\r\n`;
    const chunk = Buffer.concat([Buffer.from("10000\r\n"), Buffer.alloc(0x10000, " "), Buffer.from("\r\n")]);
    const chunks = Buffer.concat([...Array.from({ length: 300 }, () => chunk), Buffer.from("0\r\n\r\n")]);
    expect(await sendsThenReads(server.port, head, chunks)).toMatch(/^HTTP\/1\.1 413 [^]*"code":"body_too_large"/);
  });
});

describe("A refused caller that does not stop is cut", () => {
  /** Sends until the server cuts the connection; resolves with the number of bytes that left. */
  async function sendsForever(port: number, head: string, everyMs: number): Promise<number> {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    await once(socket, "connect");
    socket.on("error", () => undefined).resume();
    const closed = new Promise<number>((resolve) => socket.on("close", () => resolve(socket.bytesWritten)));
    socket.write(head);
    const part = Buffer.alloc(everyMs === 0 ? MIB : 1, "x");
    const more = (): void => {
      if (socket.destroyed) return;
      socket.write(part, () => setTimeout(more, everyMs));
    };
    more();
    return await closed;
  }
  const refused = (port: number): string =>
    `POST /jobs HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${JSON_TYPE}Content-Length: 1000000000000000\r\n\r\n`;
  const kept = (port: number): string => refused(port).replace("POST /jobs", "GET /v1/health");

  it.each([
    ["after so many bytes", refused],
    ["after so many bytes, on a connection that would be kept", kept],
  ])("%s", async (_, head) => {
    const { server } = await serve({
      limits: { lingerBytesMax: 4 * MIB, lingerMs: 600_000, requestTimeoutMs: 600_000 },
    });
    expect(await sendsForever(server.port, head(server.port), 0)).toBeGreaterThan(4 * MIB);
  });

  it.each([
    ["after that time", refused],
    ["after that time, on a connection that would be kept", kept],
  ])("%s", async (_, head) => {
    const { server } = await serve({ limits: { lingerMs: 100, requestTimeoutMs: 600_000 } });
    expect(await sendsForever(server.port, head(server.port), 5)).toBeLessThan(MIB);
  });
});

it("A connection whose request was answered before its end serves the next request", async () => {
  const { server } = await serve();
  const socket = connect(server.port, "127.0.0.1");
  let text = "";
  socket.setEncoding("latin1").on("data", (part: string) => (text += part));
  const host = `Host: 127.0.0.1:${server.port}\r\n`;
  socket.write(`GET /v1/health HTTP/1.1\r\n${host}Content-Length: ${4 * MIB}\r\n\r\n`);
  socket.write(Buffer.alloc(4 * MIB, "x"));
  socket.write(`GET /v1/health HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
  await once(socket, "close");
  expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 200"]);
});
