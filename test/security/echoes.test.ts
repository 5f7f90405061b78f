// A server that repeats parts of a request in its answer: a proxy that quotes a request, a mirror that quotes a token.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { ProviderHttp } from "../../src/providers/http.ts";
import { Pulling } from "../hub/pulling.ts";

let server: Server | undefined;
afterEach(() => server?.close());
async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  server = createServer(answer);
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const SECRET = "k3y/that+nobody=else";

it.each([
  ["a bearer", { headers: { authorization: `Bearer ${SECRET}` } }],
  ["a name and a password", { headers: { authorization: `Basic ${Buffer.from(`api:${SECRET}`).toString("base64")}` } }],
  ["a key of its own name", { headers: { "x-api-key": SECRET } }],
  ["a form", { form: { grant_type: "refresh_token", client_secret: SECRET } }],
])("a provider's answer holds nothing of %s that it was shown", async (_how, shown) => {
  const url = await serve((request, response) => {
    void text(request).then((body) => {
      const heard = [...Object.values(request.headers), body, SECRET, encodeURIComponent(SECRET), btoa(SECRET)];
      response.writeHead(403).end(JSON.stringify({ error: { message: `refused: ${heard.join(" ")}`, code: "no" } }));
    });
  });
  const http = new ProviderHttp({ provider: "cloudvm", baseUrl: url, userAgent: "svc" });
  const answer = await http.call({ method: "POST", path: "/x", ...shown });
  expect(answer.json()).toMatchObject({ error: { message: expect.stringContaining("refused") as string, code: "no" } });
  for (const form of [SECRET, encodeURIComponent(SECRET), btoa(SECRET), btoa(`api:${SECRET}`)])
    expect(answer.text).not.toContain(form);
});

it("a hub that quotes the token in its refusal puts it into no error, event or file", async () => {
  const token = "hf_quotedByTheMirror";
  const url = await serve((request, response) => {
    const message = `Invalid user token ${request.headers.authorization ?? ""}`;
    response.writeHead(403, { "x-error-message": message, date: new Date().toUTCString() }).end();
  });
  const p = await new Pulling().open();
  try {
    Object.assign(p.settings, { url, token });
    const error = (await p.pull("ann/tiny").catch((e: unknown) => e)) as { code: string; message: string };
    expect(error).toMatchObject({ code: "hub_token_refused", message: expect.stringContaining("Invalid user token") });
    const kept = readdirSync(p.home, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"));
    expect(JSON.stringify([error.message, p.events, p.hints, p.pulls.list(), kept])).not.toContain(token);
  } finally {
    await p.close();
  }
});
