// Messages go to checked addresses only: no redirects, and nothing that hangs or answers without end.

import { DEADLINE_MS } from "../deadline.ts";
import { createServer } from "node:http";
import { createServer as createTcp, type Server } from "node:net";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { post, type PostRequest } from "../../src/notify/post.ts";
import { isPublicAddress, pinnedAddresses } from "../../src/notify/public-address.ts";
import { Receiver } from "./world.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

const to = (url: string, more: Partial<PostRequest> = {}): PostRequest => ({
  target: "hook",
  url,
  headers: {},
  body: "{}",
  allowPrivate: true,
  signal: AbortSignal.timeout(DEADLINE_MS),
  env: {},
  quiet: new Redactor([]),
  ...more,
});

describe("an address", () => {
  it.each([
    "127.0.0.1",
    "10.1.2.3",
    "172.31.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2001:db8::1",
    "localhost",
  ])("%s is not public", (address) => expect(isPublicAddress(address)).toBe(false));
  it.each(["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111"])("%s is public", (address) =>
    expect(isPublicAddress(address)).toBe(true),
  );

  it.each([
    "https://127.0.0.1/x",
    "https://[::1]/x",
    "https://[::ffff:10.0.0.1]/x",
    "https://2130706433/x",
    "https://0x7f.1/x",
    "https://169.254.169.254/latest/meta-data",
    "https://localhost/x",
  ])("receives nothing if it is inside: %s", async (url) => {
    await expect(post(to(url, { allowPrivate: false }))).rejects.toMatchObject({ code: "notify_address" });
  });

  it("receives nothing without https unless it is allowed to be inside", async () => {
    const receiver = await Receiver.open();
    await expect(post(to(receiver.url, { allowPrivate: false }))).rejects.toMatchObject({ code: "notify_address" });
    await post(to(receiver.url));
    expect(receiver.got).toHaveLength(1);
  });

  it("is refused by its name if a proxy would resolve it inside", async () => {
    const env = { HTTPS_PROXY: "http://127.0.0.1:1" };
    for (const host of ["intranet", "intranet.", "printer.local", "printer.local.", "metadata.internal", "localhost"])
      await expect(post(to(`https://${host}/`, { allowPrivate: false, env }))).rejects.toMatchObject({
        code: "notify_address",
      });
  });
});

describe("a name", () => {
  it("is checked if the settings of the proxy leave it out, and it is resolved here", async () => {
    const resolver = () => Promise.resolve([{ address: "127.0.0.1", family: 4 }]);
    for (const NO_PROXY of [".corp.example", "*"])
      await expect(
        post(
          to("https://hook.corp.example/", {
            allowPrivate: false,
            resolver,
            env: { HTTPS_PROXY: "http://127.0.0.1:1", NO_PROXY },
          }),
        ),
      ).rejects.toMatchObject({ code: "notify_address" });
  });

  it("is refused if one of its addresses leads inside", async () => {
    const resolver = () =>
      Promise.resolve([
        { address: "1.1.1.1", family: 4 },
        { address: "10.0.0.7", family: 4 },
      ]);
    await expect(pinnedAddresses("rebind.example", { allowPrivate: false, resolver })).rejects.toThrow(
      "rebind.example: it leads to 10.0.0.7",
    );
  });

  it("receives nothing over plain http if it leads out of the network", async () => {
    const resolver = () => Promise.resolve([{ address: "2606:4700::1111", family: 6 }]);
    for (const url of ["http://hook.example/", "http://1.1.1.1/"])
      await expect(post(to(url, { resolver }))).rejects.toMatchObject({ code: "notify_address" });
  });

  it("is told to the proxy, and is not resolved here", async () => {
    const heard: string[] = [];
    const proxy = createTcp((socket) =>
      socket
        .on("error", () => undefined)
        .on("data", (part) => {
          heard.push(part.toString("latin1").split("\r\n")[0] ?? "");
          socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
        }),
    );
    servers.push(proxy);
    await new Promise<void>((up) => proxy.listen(0, "127.0.0.1", up));
    const env = { HTTPS_PROXY: `http://localhost:${(proxy.address() as AddressInfo).port}` };
    const resolver = () => Promise.reject(new Error("asked"));
    const sent = post(to("https://hook.corp.example/", { allowPrivate: false, resolver, env }));
    await expect(sent).rejects.toMatchObject({ code: "notify_unreachable" });
    expect(heard).toEqual(["CONNECT hook.corp.example:443 HTTP/1.1"]);
  });

  it("is resolved once, so a second answer cannot point elsewhere", async () => {
    const receiver = await Receiver.open();
    let asked = 0;
    const resolver = () => Promise.resolve([{ address: ++asked === 1 ? "127.0.0.1" : "127.0.0.2", family: 4 }]);
    const { port } = new URL(receiver.url);
    await post(to(`http://hook.example:${port}/`, { resolver }));
    expect([asked, receiver.got.length]).toEqual([1, 1]);
    expect(receiver.got[0]?.headers.host).toBe(`hook.example:${port}`);
  });
});

describe("a receiver", () => {
  it("is not followed when it redirects", async () => {
    const [receiver, other] = [await Receiver.open(), await Receiver.open()];
    receiver.answers = [{ status: 307, headers: { location: `${other.url}/elsewhere` } }];
    await expect(post(to(receiver.url))).rejects.toThrow("redirects elsewhere (307), and svc does not follow");
    expect(other.got).toEqual([]);
  });

  it("ends the attempt by its deadline when it hangs", async () => {
    const receiver = await Receiver.open();
    receiver.answers = ["hang"];
    await expect(post(to(receiver.url, { signal: AbortSignal.timeout(200) }))).rejects.toThrow(
      "did not answer in time",
    );
  });

  it("has the message when it answers 2xx, although it keeps the body open", async () => {
    const server = createServer((_, response) => {
      response.writeHead(200, { "content-type": "text/plain" });
      response.write("ok");
    });
    servers.push(server);
    const closed = new Promise((end) => server.on("connection", (socket) => socket.on("close", end)));
    await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
    const { port } = server.address() as AddressInfo;
    await post(to(`http://127.0.0.1:${port}/`));
    await closed;
  });

  it("is read to a bound when it answers without end", async () => {
    let written = 0;
    const server = createTcp((socket) => {
      socket.on("error", () => undefined);
      socket.write("HTTP/1.1 500 no\r\ntransfer-encoding: chunked\r\n\r\n");
      const more = (): void => {
        while (!socket.destroyed && socket.write(`2000\r\n${"x".repeat(0x2000)}\r\n`)) written += 0x2000;
      };
      socket.on("drain", more);
      more();
    });
    servers.push(server);
    await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
    const { port } = server.address() as AddressInfo;
    await expect(post(to(`http://127.0.0.1:${port}/`))).rejects.toMatchObject({ code: "notify_unreachable" });
    expect(written).toBeLessThan(64 * 1024 * 1024);
  });

  it("is named in the words of every other client when it refuses the connection", async () => {
    const server = createTcp();
    await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
    const { port } = server.address() as AddressInfo;
    await new Promise((closed) => server.close(closed));
    await expect(post(to(`http://127.0.0.1:${port}/`))).rejects.toMatchObject({
      code: "notify_unreachable",
      message: expect.stringContaining("nothing listens at this address (the connection was refused)") as string,
    });
  });

  it("is refused when it sends one endless header", async () => {
    const server = createTcp((socket) => {
      socket.on("error", () => undefined);
      socket.write(`HTTP/1.1 200 OK\r\nx: ${"y".repeat(1024 * 1024)}`);
    });
    servers.push(server);
    await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
    const { port } = server.address() as AddressInfo;
    await expect(post(to(`http://127.0.0.1:${port}/`))).rejects.toMatchObject({ code: "notify_unreachable" });
  });

  it.each([400, 413, 422])("refuses the message for good with %i", async (status) => {
    const receiver = await Receiver.open();
    receiver.answers = [{ status }];
    await expect(post(to(receiver.url))).rejects.toMatchObject({ code: "notify_refused" });
  });

  it("is named in an error without the path of its address, which may be its secret", async () => {
    const receiver = await Receiver.open();
    receiver.answers = [{ status: 404, body: "No service" }];
    const error = await post(to(`${receiver.url}/services/T0/B0/verysecret`)).catch((e: unknown) => e);
    expect(String(error)).toContain("answers 404 (No service)");
    expect(String(error)).not.toContain("verysecret");
  });
});
