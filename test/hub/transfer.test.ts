import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { Transfer } from "../../src/hub/transfer.ts";

async function hub(handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<Transfer> {
  const server = createServer(handler);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const transfer = new Transfer({ baseUrl, token: null, userAgent: "svc/test", stallMs: 30_000 });
  onTestFinished(() => {
    transfer.close();
    server.closeAllConnections();
    server.close();
  });
  return transfer;
}

it("An error about a redirect names no query, which may be a signature", async () => {
  const signal = new AbortController().signal;
  for (const location of ["ftp://store.example/blob?sign=of-the-store", "//[", "/model?sign=of-the-hub"]) {
    const transfer = await hub((_, response) => response.writeHead(302, { location }).end());
    const got = transfer.get(transfer.urlOf("/model?sign=of-the-hub"), { signal });
    const error = await got.catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "hub_bad_answer" });
    expect(String(error)).toContain("/model");
    expect(String(error)).not.toContain("sign=");
  }
});

it("A hub with https is never left for http", async () => {
  const secure = new Transfer({ baseUrl: "https://hub.example", token: null, userAgent: "svc/test", stallMs: 30_000 });
  onTestFinished(() => secure.close());
  const asked: (string | undefined)[] = [];
  const elsewhere = await hub((request, response) => {
    asked.push(request.url);
    response.writeHead(302, { location: "/plain" }).end();
  });
  const got = secure.get(elsewhere.urlOf("/model"), { signal: new AbortController().signal });
  await expect(got).rejects.toMatchObject({ code: "hub_bad_answer" });
  expect(asked).toEqual(["/model"]);
});
