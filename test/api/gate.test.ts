import { linkTicket } from "../../src/platform/one-time-link.ts";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { IncomingMessage } from "node:http";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { Gate } from "../../src/api/gate.ts";
import { peerUid } from "../../src/api/peer.ts";
import { startServer } from "../../src/api/server.ts";
import { PlaneDouble, serve } from "./double.ts";
import { ask, post, raw } from "./wire.ts";

const TOKEN = "t0ken-of-this-home";
const ipv6 = Object.values(networkInterfaces()).some((list) => list?.some((entry) => entry.address === "::1"));
const external = Object.values(networkInterfaces())
  .flatMap((list) => list ?? [])
  .find((entry) => !entry.internal && entry.family === "IPv4")?.address;

/** Status of an upgrade with these headers; 101 when the socket opened. */
function upgrade(port: number, headers: Record<string, string>, host = "127.0.0.1"): Promise<number> {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://${host}:${port}/v1/events`, { headers });
    socket.on("open", () => {
      socket.terminate();
      resolve(101);
    });
    socket.on("unexpected-response", (request, response) => {
      request.destroy();
      resolve(response.statusCode ?? 0);
    });
    socket.on("error", () => resolve(0));
  });
}

describe("Host (DNS rebinding)", () => {
  it.each([
    "evil.example",
    "evil.example:PORT",
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost",
    "localhost.:PORT",
    "0.0.0.0:PORT",
    "[::1]:PORT",
    "127.1:PORT",
    "2130706433:PORT",
    "127.0.0.1:PORT.evil.example",
    "127.0.0.1.nip.io:PORT",
    "127.0.0.1:PORT@evil.example",
    "evil@127.0.0.1:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "127.0.0.2:PORT",
  ])("refuses the name %s for API, page and upgrade", async (name) => {
    const { plane, server } = await serve();
    const host = name.replace("PORT", String(server.port));
    for (const [method, path] of [
      ["GET", "/jobs"],
      ["GET", "/"],
      ["POST", "/jobs/kill"],
      ["OPTIONS", "/jobs"],
      ["GET", "/v1/nothing"],
      ["HEAD", "/"],
    ]) {
      const reply = await ask({ port: server.port, path: path as string, method: method as string, headers: { host } });
      expect([reply.status, method === "HEAD" ? "host_refused" : reply.json.code]).toEqual([403, "host_refused"]);
    }
    expect(await upgrade(server.port, { host })).toBe(403);
    expect(plane.listeners.size).toBe(0);
  });

  it("answers to its own names, in any case of letters", async () => {
    const { server } = await serve();
    for (const name of ["127.0.0.1", "localhost", "LocalHost"]) {
      expect((await ask({ port: server.port, headers: { host: `${name}:${server.port}` } })).status).toBe(200);
    }
  });

  it("redirects a tab that opens localhost to the numeric address, and refuses what a page under that name asks", async () => {
    const { plane, server } = await serve();
    const host = `localhost:${server.port}`;
    const tab = { "sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    const opened = await ask({ port: server.port, path: "/runs/4k2m?tab=log", headers: { host, ...tab } });
    expect([opened.status, opened.headers["location"]]).toEqual([
      303,
      `http://127.0.0.1:${server.port}/runs/4k2m?tab=log`,
    ]);
    const page = {
      host,
      "sec-fetch-site": "same-origin",
      "sec-fetch-mode": "cors",
      "content-type": "application/json",
    };
    for (const headers of [page, { ...page, origin: `http://${host}` }, { host, origin: `http://${host}` }])
      for (const method of ["GET", "POST", "DELETE"]) {
        const reply = await ask({ port: server.port, path: "/jobs", method, headers });
        expect([reply.status, reply.json.code]).toEqual([403, "host_refused"]);
      }
    expect(await upgrade(server.port, { host, origin: `http://${host}` })).toBe(403);
    expect(plane.listeners.size).toBe(0);
  });

  it("serves no script to a service worker", async () => {
    const { server } = await serve();
    const headers = { "service-worker": "script", "sec-fetch-site": "same-origin", "sec-fetch-dest": "serviceworker" };
    expect((await ask({ port: server.port, path: "/sw.js", headers })).json.code).toBe("origin_refused");
  });

  it("refuses a request without Host, with two, and one whose target is another server", async () => {
    const { server } = await serve();
    const own = `Host: 127.0.0.1:${server.port}\r\n`;
    expect(await raw(server.port, "GET /jobs HTTP/1.1\r\nConnection: close\r\n\r\n")).toMatch(
      /^HTTP\/1\.1 403 [^]*host_refused/,
    );
    expect(await raw(server.port, "GET /jobs HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n")).toMatch(
      /^HTTP\/1\.1 403 [^]*host_refused/,
    );
    expect(await raw(server.port, "GET /jobs HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1\.1 403 [^]*host_refused/);
    expect(await raw(server.port, `GET /jobs HTTP/1.1\r\n${own}Host: evil.example\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 40[03] /,
    );
    expect(await raw(server.port, `GET http://evil.example/jobs HTTP/1.1\r\n${own}\r\n`)).toMatch(
      /^HTTP\/1\.1 400 [^]*malformed_request/,
    );
    expect(await raw(server.port, `OPTIONS * HTTP/1.1\r\n${own}\r\n`)).toMatch(/^HTTP\/1\.1 400 [^]*malformed_request/);
  });

  it("answers to [::1] if it is bound there", { tags: "needs/ipv6" }, async () => {
    const { server } = await serve({ host: "::1" });
    expect(server.url).toBe(`http://[::1]:${server.port}`);
    expect((await ask({ host: "::1", port: server.port, headers: { host: `[::1]:${server.port}` } })).status).toBe(200);
    expect((await ask({ host: "::1", port: server.port, headers: { host: `127.0.0.1:${server.port}` } })).status).toBe(
      403,
    );
  });
});

describe("Origin and Sec-Fetch-Site", () => {
  it.each([
    "http://evil.example",
    "null",
    "http://127.0.0.1",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1:1",
    "http://localhost:PORT",
    "http://127.0.0.1:PORT.evil.example",
    "file://",
    "HTTP://127.0.0.1:PORT/",
    "",
  ])("refuses the origin %s for every method and the upgrade", async (name) => {
    const { plane, server } = await serve();
    plane.addJob();
    const origin = name.replace("PORT", String(server.port));
    for (const method of ["GET", "POST", "DELETE", "PUT", "OPTIONS"]) {
      const reply = await ask({
        port: server.port,
        path: "/jobs/kill",
        method,
        headers: { origin, "content-type": "application/json" },
        body: '{"all":true}',
      });
      expect([reply.status, reply.json.code]).toEqual([403, "origin_refused"]);
      expect(Object.keys(reply.headers).filter((header) => header.startsWith("access-control"))).toEqual([]);
    }
    expect(await upgrade(server.port, { origin })).toBe(403);
    expect([...plane.records.values()].map((record) => record.status)).toEqual(["running"]);
  });

  it("accepts its own origin, on the wire and on the socket", async () => {
    const { server } = await serve();
    const origin = `http://127.0.0.1:${server.port}`;
    expect(
      (await post(server.port, "/jobs", { spec: { entrypoint: "a.py" } }, { origin, "sec-fetch-site": "same-origin" }))
        .status,
    ).toBe(201);
    expect(await upgrade(server.port, { origin })).toBe(101);
  });

  it.each(["cross-site", "same-site", "odd"])(
    "refuses Sec-Fetch-Site %s but for opening the shell in a tab",
    async (site) => {
      const { server } = await serve();
      const headers = {
        "sec-fetch-site": site,
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
        accept: "text/html",
      };
      const status = async (path: string, patch: Record<string, string> = {}, method = "GET"): Promise<number> =>
        (await ask({ port: server.port, path, method, headers: { ...headers, ...patch } })).status;
      expect(await status("/")).toBe(200);
      expect([
        await status("/jobs"),
        await status("/v1/health"),
        await status("/jobs", {}, "POST"),
        await status("/", {}, "POST"),
      ]).toEqual([403, 403, 403, 403]);
      expect([
        await status("/", { "sec-fetch-dest": "iframe" }),
        await status("/", { "sec-fetch-mode": "no-cors" }),
      ]).toEqual([403, 403]);
      expect(await upgrade(server.port, { "sec-fetch-site": site })).toBe(403);
    },
  );
});

describe("the peer of a loopback connection", () => {
  it("reads the uid of a connection, over IPv4, IPv6 and mapped addresses", { tags: "needs/linux" }, async () => {
    for (const [listen, dial] of [
      ["127.0.0.1", "127.0.0.1"],
      ...(ipv6
        ? [
            ["::1", "::1"],
            ["::", "127.0.0.1"],
          ]
        : []),
      ["127.0.0.1", "::ffff:127.0.0.1"],
    ]) {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, listen, resolve));
      const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
      const client = connect((server.address() as AddressInfo).port, dial);
      const socket = await accepted;
      const look = (): number | null =>
        peerUid(
          { address: socket.remoteAddress as string, port: socket.remotePort as number },
          { address: socket.localAddress as string, port: socket.localPort as number },
        );
      expect(look()).toBe(process.getuid?.());
      client.destroy();
      socket.destroy();
      server.close();
    }
  });

  it("assigns no user to a connection that its peer has closed: the system then says root, without an inode", async () => {
    const server = createServer({ allowHalfOpen: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    const socket = await accepted;
    onTestFinished(() => {
      socket.destroy();
      server.close();
    });
    const { remoteAddress = "", remotePort = 0, localAddress = "", localPort = 0 } = socket;
    const look = (): number | null =>
      peerUid({ address: remoteAddress, port: remotePort }, { address: localAddress, port: localPort });
    expect(look()).toBe(process.getuid?.());
    const closed = once(socket.resume(), "end");
    client.destroy();
    await closed;
    expect(look()).toBeNull();
  });

  it("knows the user of a connection from its accept, also when its peer has closed it before the request is judged", async () => {
    const gate = new Gate({ host: "127.0.0.1", connectionsMax: 8, log: () => undefined });
    const server = createServer({ allowHalfOpen: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
    const client = connect(port, "127.0.0.1");
    const socket = await accepted;
    onTestFinished(() => {
      socket.destroy();
      server.close();
    });
    expect(gate.accept(socket)).toBe(true);
    const closed = once(socket.resume(), "end");
    client.destroy();
    await closed;
    const request = Object.assign(new IncomingMessage(socket), { method: "POST", url: "/jobs" });
    Object.assign(request.headersDistinct, { host: [`127.0.0.1:${port}`] });
    expect(gate.check(request).kind).toBe("admitted");
  });

  it("assigns no user to an address that is in no table", () => {
    expect(peerUid({ address: "127.0.0.1", port: 1 }, { address: "127.0.0.1", port: 2 })).toBeNull();
    expect(peerUid({ address: "nonsense", port: 1 }, { address: "127.0.0.1", port: 2 })).toBeNull();
  });

  it(
    "cuts another user before a byte is parsed, token or not",
    { tags: ["needs/root", "needs/setpriv", "needs/curl"] },
    async () => {
      const { plane, server, lines } = await serve({ token: TOKEN });
      const as = (uid: string[]): Promise<string> =>
        promisify(execFile)("setpriv", [
          ...uid,
          "curl",
          "-sS",
          "-m",
          "10",
          "-o",
          "-",
          "-w",
          "%{http_code}",
          "-H",
          `Authorization: Bearer ${TOKEN}`,
          `${server.url}/v1/health`,
        ]).then(
          ({ stdout }) => stdout,
          (error: { stdout: string }) => error.stdout,
        );
      const nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
      expect(await as(nobody)).toBe("000");
      expect(await as(["--reuid=0"])).toMatch(/"status":"ok".*200$/);
      expect(lines.filter((line) => line.includes("uid 65534"))).toHaveLength(1);
      expect(lines.join()).not.toContain(TOKEN);
      expect(plane.listeners.size).toBe(0);
    },
  );
});

describe("bound beyond loopback", { tags: "needs/network" }, () => {
  const bound = { host: "0.0.0.0", token: TOKEN };
  const bearer = { authorization: `Bearer ${TOKEN}` };

  it("does not start without a token", async () => {
    const start = startServer(new PlaneDouble(), {
      host: "0.0.0.0",
      port: 0,
      projectDir: "/",
      dashboardDir: null,
      version: "1",
    });
    await expect(start).rejects.toMatchObject({ code: "start_failed" });
  });

  it("demands the token for every request, from this computer too", async () => {
    const { server } = await serve(bound);
    for (const host of ["127.0.0.1", external as string]) {
      for (const path of ["/", "/jobs", "/v1/health", "/assets/x.js", "/nothing"]) {
        const reply = await ask({ host, port: server.port, path });
        expect([reply.status, reply.json.code, reply.headers["www-authenticate"]]).toEqual([
          401,
          "unauthorized",
          'Bearer realm="svc"',
        ]);
      }
      expect(await upgrade(server.port, {}, host)).toBe(401);
      expect(await upgrade(server.port, bearer, host)).toBe(101);
      expect((await ask({ host, port: server.port, headers: bearer })).status).toBe(200);
    }
    for (const wrong of [
      `Bearer ${TOKEN}x`,
      `Bearer ${TOKEN.slice(1)}`,
      "Bearer",
      `Basic ${TOKEN}`,
      TOKEN,
      "Bearer  ",
    ]) {
      expect((await ask({ port: server.port, headers: { authorization: wrong } })).status).toBe(401);
    }
  });

  it("still refuses foreign names and origins from a caller with the token", async () => {
    const { server } = await serve(bound);
    for (const host of ["evil.example:PORT", "0.0.0.0:PORT"]) {
      expect(
        (await ask({ port: server.port, headers: { ...bearer, host: host.replace("PORT", String(server.port)) } })).json
          .code,
      ).toBe("host_refused");
    }
    expect((await ask({ port: server.port, headers: { ...bearer, origin: "http://evil.example" } })).json.code).toBe(
      "origin_refused",
    );
  });

  it("exchanges the link for a cookie once, and removes the token from the address", async () => {
    const { server, lines } = await serve(bound);
    const link = server.openUrl.slice(server.url.length);
    const first = await ask({ port: server.port, path: link });
    expect([first.status, first.headers.location]).toEqual([303, "/"]);
    const set = first.headers["set-cookie"]?.[0] ?? "";
    expect(set).toMatch(/; Path=\/; HttpOnly; SameSite=Strict$/);
    expect(set).not.toContain(TOKEN);
    const cookie = set.split(";")[0] as string;
    expect((await ask({ port: server.port, path: "/jobs", headers: { cookie: `a=b; ${cookie}; c=d` } })).status).toBe(
      200,
    );
    expect((await ask({ port: server.port, path: "/jobs", headers: { cookie: `${cookie}x` } })).status).toBe(401);
    expect((await ask({ port: server.port, path: link })).status).toBe(401);
    expect((await ask({ port: server.port, path: "/?token=wrong" })).status).toBe(401);
    expect((await ask({ port: server.port, path: `/?token=${TOKEN}`, method: "POST" })).status).toBe(401);
    expect((await ask({ port: server.port, path: `/jobs?token=${TOKEN}` })).status).toBe(401);
    expect(lines.join()).not.toContain("token=");
  });
});

describe("the link of `svc open`", { tags: "needs/network" }, () => {
  it("is exchanged once, for ten minutes, and the token itself is good in no address", async () => {
    const { server } = await serve({ host: "0.0.0.0", token: TOKEN });
    const statusOf = async (token: string) => (await ask({ port: server.port, path: `/?token=${token}` })).status;
    const ticket = linkTicket(TOKEN, Date.now());
    expect(ticket).not.toContain(TOKEN);
    const wrong = [
      TOKEN,
      `${ticket}x`,
      linkTicket("another token", Date.now()),
      linkTicket(TOKEN, Date.now() - 11 * 60_000),
      linkTicket(TOKEN, Date.now() + 11 * 60_000),
    ];
    for (const each of wrong) expect(await statusOf(each)).toBe(401);
    expect([await statusOf(ticket), await statusOf(ticket)]).toEqual([303, 401]);
    expect(await statusOf(linkTicket(TOKEN, Date.now()))).toBe(303);
  });

  it("does not count with a server that started after it was made: the one before may have exchanged it", async () => {
    const ticket = linkTicket(TOKEN, Date.now() - 1_000);
    const { server } = await serve({ host: "0.0.0.0", token: TOKEN });
    expect((await ask({ port: server.port, path: `/?token=${ticket}` })).status).toBe(401);
  });
});

describe("slow, large and many", () => {
  it("cuts a caller whose body does not arrive", async () => {
    const { plane, server } = await serve({
      limits: { requestTimeoutMs: 300, headersTimeoutMs: 200, lateCheckMs: 50 },
    });
    const head = `POST /jobs HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`;
    expect(await raw(server.port, head)).toMatch(/^HTTP\/1\.1 408 [^]*request_timeout/);
    expect(await raw(server.port, "GET /jobs HTTP/1.1\r\nX-Slow: ")).toMatch(/^HTTP\/1\.1 408 [^]*request_timeout/);
    expect(plane.submitted).toEqual([]);
  });

  it("An idle connection stays open longer than any caller keeps it, and the answer says how long", async () => {
    const { server } = await serve();
    const { headers } = await ask({ port: server.port, headers: { connection: "keep-alive" } });
    expect(headers["keep-alive"]).toBe("timeout=75");
  });

  it("answers oversized headers and non-HTTP bytes in the same form", async () => {
    const { server } = await serve();
    expect(await raw(server.port, `GET / HTTP/1.1\r\nX: ${"a".repeat(40_000)}\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 431 [^]*problem\+json[^]*headers_too_large/,
    );
    expect(await raw(server.port, "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")).toMatch(
      /^HTTP\/1\.1 400 [^]*problem\+json[^]*malformed_request/,
    );
    expect(
      await raw(
        server.port,
        `GET / HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n`,
      ),
    ).toMatch(/^HTTP\/1\.1 404 [^]*not_found/);
  });

  it("asks callers beyond the cap to come back, and recovers", async () => {
    const { server } = await serve({ limits: { connectionsMax: 3 } });
    const held = await Promise.all(
      [1, 2, 3].map(
        () =>
          new Promise<Socket>((resolve) => {
            const socket = connect(server.port, "127.0.0.1", () => resolve(socket));
            socket.on("error", () => undefined);
          }),
      ),
    );
    const over = await ask({ port: server.port });
    expect([over.status, over.json.code, over.headers["retry-after"]]).toEqual([503, "too_many_connections", "5"]);
    await Promise.all(held.map((socket) => new Promise((resolve) => socket.once("close", resolve).destroy())));
    await expect.poll(async () => (await ask({ port: server.port })).status).toBe(200);
  });

  it("puts the same guards on every answer", async () => {
    const { server } = await serve();
    for (const [path, headers] of [
      ["/", {}],
      ["/jobs", {}],
      ["/nothing", {}],
      ["/jobs", { host: "evil.example" }],
      ["/jobs/%", {}],
    ] as const) {
      const reply = await ask({ port: server.port, path, headers });
      expect(reply.headers).toMatchObject({
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "x-frame-options": "DENY",
      });
      expect(reply.headers["content-security-policy"]).toMatch(
        /default-src 'self'.*base-uri 'none'.*form-action 'self'.*frame-ancestors 'none'/,
      );
      expect(reply.headers["cache-control"]).toMatch(path === "/" ? /no-cache/ : /no-store/);
    }
  });
});
