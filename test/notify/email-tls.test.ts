// A letter to a server outside: no test may call one, so a connection to its address leads to a server of this computer.

import { createServer, type AddressInfo, type NetConnectOpts, type Server } from "node:net";
import { afterEach, expect, it, vi } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { sendEmail } from "../../src/notify/email.ts";
import { testMessage } from "../../src/notify/message.ts";

const OUTSIDE = "93.184.215.14";
const asked = vi.hoisted(() => ({ port: 0, hosts: [] as unknown[] }));
vi.mock("node:net", async (original) => {
  const net = await original<typeof import("node:net")>();
  const connect = (options: NetConnectOpts): unknown => {
    asked.hosts.push("host" in options ? options.host : undefined);
    return net.connect({ ...options, host: "127.0.0.1", port: asked.port } as NetConnectOpts);
  };
  return { ...net, connect };
});

let server: Server | null = null;
afterEach(() => void server?.close());

it("A server outside that offers no TLS receives neither the password nor the message", async () => {
  const heard: string[] = [];
  server = createServer((socket) => {
    socket.write("220 mail.example.com ESMTP\r\n");
    socket.on("error", () => undefined);
    socket.setEncoding("utf8").on("data", (text: string) => {
      heard.push(text);
      if (text.startsWith("EHLO")) socket.write("250-mail.example.com\r\n250 AUTH PLAIN LOGIN\r\n");
      else socket.write(/^STARTTLS/i.test(text) ? "502 no such command\r\n" : "250 ok\r\n");
    });
  });
  await new Promise<void>((up) => server?.listen(0, "127.0.0.1", up));
  asked.port = (server.address() as AddressInfo).port;
  const target = {
    kind: "email",
    host: OUTSIDE,
    port: 587,
    user: "me",
    from: "svc@example.com",
    to: ["me@example.com"],
  };
  const context = { name: "mail", secret: "the password", quiet: new Redactor([]), env: {}, now: 0 };
  const sent = sendEmail(testMessage("m1", "mail", 0), target as Parameters<typeof sendEmail>[1], {
    ...context,
    signal: new AbortController().signal,
  });
  await expect(sent).rejects.toMatchObject({ code: "notify_unreachable" });
  expect(asked.hosts).toEqual([OUTSIDE]);
  expect(heard.map((text) => text.split(/[ \r]/)[0])).toEqual(["EHLO", "STARTTLS"]);
});
