// Requests that proxies, parsers and routers often interpret differently, against the real server.

import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROUTES } from "../../src/api/routes/index.ts";
import { Place, portOf, raw, statuses, type Served } from "./harness.ts";

const place = new Place();
let served: Served;
let own: string;

beforeAll(async () => {
  served = await place.serve();
  own = `Host: 127.0.0.1:${portOf(served)}\r\n`;
});
afterAll(() => place.close());

const KILL = '{"all":true}';
const JSON_TYPE = "Content-Type: application/json\r\n";
const ask = async (bytes: string): Promise<number[]> => statuses(await raw(portOf(served), bytes));

describe("the wire", () => {
  it.each([
    [
      "both lengths",
      `POST /jobs HTTP/1.1\r\nOWN${JSON_TYPE}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /jobs/kill HTTP/1.1\r\nOWN\r\n`,
    ],
    ["two lengths", `POST /jobs HTTP/1.1\r\nOWN${JSON_TYPE}Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello`],
    ["an unknown coding", `POST /jobs HTTP/1.1\r\nOWN${JSON_TYPE}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
    ["a blank before the colon", `POST /jobs HTTP/1.1\r\nOWN${JSON_TYPE}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`],
    ["bare line feeds", "GET /jobs HTTP/1.1\nOWN\n\n"],
    ["a folded header", "GET /jobs HTTP/1.1\r\nOWNX: a\r\n b\r\n\r\n"],
    ["NUL in the target", "GET /jobs/\0 HTTP/1.1\r\nOWN\r\n"],
    ["an absolute target, even its own", "GET http://127.0.0.1/jobs HTTP/1.1\r\nOWN\r\n"],
    ["headers without end", `GET /jobs HTTP/1.1\r\nOWN${"A:\r\n".repeat(2_100)}Origin: http://evil.example\r\n\r\n`],
  ])("with %s is refused once, and no later request on the connection is served", async (_, bytes) => {
    const answers = await ask(bytes.replaceAll("OWN", own));
    expect(answers).toHaveLength(1);
    expect([400, 403, 431]).toContain(answers[0]);
  });

  it("does not tunnel", async () => {
    expect(await ask(`CONNECT 127.0.0.1:22 HTTP/1.1\r\n${own}\r\n`)).toEqual([]);
  });

  it("asks the gate before it answers 100 or 417", async () => {
    const post = (host: string, expects: string) =>
      ask(
        `POST /jobs HTTP/1.1\r\n${host}Expect: ${expects}\r\n${JSON_TYPE}Content-Length: 2\r\nConnection: close\r\n\r\n{}`,
      );
    expect(await post("Host: evil.example\r\n", "100-continue")).toEqual([403]);
    expect(await post("Host: evil.example\r\n", "odd")).toEqual([403]);
    expect(await post(own, "100-continue")).toEqual([100, 400]);
  });

  it("judges each request of a pipeline separately", async () => {
    const get = (host: string, end = "") => `GET /v1/health HTTP/1.1\r\n${host}${end}\r\n`;
    expect(await ask(get(own) + get("Host: evil.example\r\n") + get(own, "Connection: close\r\n"))).toEqual([200, 403]);
  });

  it.each([
    "//",
    "//evil.example/",
    "/..;/..;/etc/passwd",
    "/assets/%252e%252e/package.json",
    "/%2e%2e/%2e%2e/package.json",
    "/assets/..\\..\\package.json",
    "/jobs/%00/logs",
  ])("has nothing at %s", async (path) => {
    expect(await ask(`GET ${path} HTTP/1.1\r\n${own}Connection: close\r\n\r\n`)).toEqual([404]);
  });

  it.each(["text/plain", "application/json garbage", "application/x-www-form-urlencoded", "multipart/form-data"])(
    "takes no order as %s",
    async (type) => {
      const body = `Content-Type: ${type}\r\nContent-Length: ${KILL.length}\r\nConnection: close\r\n\r\n${KILL}`;
      expect(await ask(`POST /jobs/kill HTTP/1.1\r\n${own}${body}`)).toEqual([415]);
    },
  );

  it("closes a socket that sends endless fragments, and keeps serving", async () => {
    const head = `GET /v1/events HTTP/1.1\r\n${own}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`;
    const masked = (first: number) => String.fromCharCode(first, 0x80, 0, 0, 0, 0);
    const text = await raw(portOf(served), head + masked(0x01) + masked(0x00).repeat(20_000));
    expect(text.slice(-4)).toBe("\x88\x02\x03\xf0"); // closed with 1008
    expect(await ask(`GET /v1/health HTTP/1.1\r\n${own}Connection: close\r\n\r\n`)).toEqual([200]);
  });

  it("keeps serving while another user opens connections without end", { tags: "needs/root" }, async () => {
    const knock = `import socket
for _ in range(400):
    try:
        with socket.create_connection(("127.0.0.1", ${portOf(served)})) as s: s.recv(1)
    except ConnectionError: pass`;
    // Python is available to every user; the Node of a checkout below /root only to root.
    const other = spawn("python3", ["-c", knock], { uid: 65534, gid: 65534, stdio: "ignore" });
    const over = new Promise((resolve, reject) => other.once("exit", resolve).once("error", reject));
    expect(await ask(`GET /v1/health HTTP/1.1\r\n${own}Connection: close\r\n\r\n`)).toEqual([200]);
    expect(await over).toBe(0);
    expect(served.err.match(/uid 65534/g)).toHaveLength(1);
  });
});

describe("a path that leads out", () => {
  const NAMED = "secret-beside-the-home.txt";
  const SPELLINGS = [
    `../../../../../../../..${place.root}/${NAMED}`,
    `..%2f..%2f..%2f${NAMED}`,
    `%2e%2e/%2e%2e/%2e%2e/${NAMED}`,
    `..%252f..%252f${NAMED}`,
    `..%5c..%5c${NAMED}`,
    `..;/..;/${NAMED}`,
    `%c0%ae%c0%ae/${NAMED}`,
    encodeURIComponent(join(place.root, NAMED)),
    `/${join(place.root, NAMED)}`,
    "train.py%00.txt",
    "..%2fsvc.db",
    "..%2fcredentials.json",
  ];
  let job = "";
  beforeAll(async () => {
    writeFileSync(join(place.root, NAMED), "canary-beside-the-home");
    place.file("train.py", "print(1)\n");
    job = await served.submit({ entrypoint: "train.py" });
    await served.ended(job);
  });

  // A hold's id never becomes a path on the disk; releasing an unknown hold changes nothing.
  const open = ROUTES.filter((route) => route.path.includes("{") && route.id !== "releaseHold");
  it.each(open.map((route) => [route.method, route.path]))(
    "is found by none of its spellings: %s %s",
    async (method, path) => {
      const parts = path.match(/\{\w+\}/g) ?? [];
      for (const hostile of parts) {
        for (const spelling of SPELLINGS) {
          const target = path.replace(hostile, spelling).replaceAll(/\{\w+\}/g, job);
          const body = method === "GET" || method === "DELETE" ? "" : `${JSON_TYPE}Content-Length: 2\r\n\r\n{}`;
          const head = `${method} ${target} HTTP/1.1\r\n${own}Connection: close\r\n`;
          const answer = await raw(portOf(served), head + (body || "\r\n"));
          expect(answer, target).not.toContain("canary-beside-the-home");
          expect(statuses(answer)[0], target).toBeGreaterThanOrEqual(400);
          expect(statuses(answer)[0], target).toBeLessThan(500);
        }
      }
      expect(existsSync(join(place.root, NAMED))).toBe(true);
    },
  );
});
