// The HTTP client against correct and incorrect servers.

import { spawn } from "node:child_process";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, expect, test, vi } from "vitest";
import { Client } from "../../sdk/client.ts";
import { clientOf, forget } from "../../sdk/control-planes.ts";
import { SvcError } from "../../sdk/errors.ts";
import { run } from "../../sdk/index.ts";
import { DEADLINE_MS } from "../deadline.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const s of servers.splice(0)) {
    s.closeAllConnections();
    s.close();
  }
});

async function serve(
  listener: RequestListener,
  options: { bytesMax?: number; deadlineMs?: number; token?: string } = {},
): Promise<Client> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((r) => server.listen(0, "127.0.0.1", r));
  const { token, ...rest } = options;
  return new Client({
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ...rest,
    ...(token ? { token: () => token } : {}),
  });
}

async function failure(promise: Promise<unknown>): Promise<SvcError> {
  const e = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(e).toBeInstanceOf(SvcError);
  return e as SvcError;
}

test("a problem answer becomes an error with code, message, hint and fields", async () => {
  const client = await serve((_, res) => {
    res.writeHead(400, { "content-type": "application/problem+json" });
    res.end(
      JSON.stringify({
        type: "x",
        title: "t",
        status: 400,
        detail: "nodes is wrong.",
        code: "invalid_request",
        hint: "Correct it.",
        errors: [{ field: "nodes", message: "no" }],
      }),
    );
  });
  const e = await failure(client.job("a"));
  expect(e).toMatchObject({
    code: "invalid_request",
    message: "nodes is wrong.",
    hint: "Correct it.",
    status: 400,
    exit: 2,
    errors: [{ field: "nodes", message: "no" }],
  });
});

test("checkpoints are removed by their names, and only measured with a dry run", async () => {
  const sent: unknown[] = [];
  const client = await serve((req, res) => {
    let body = "";
    req.on("data", (part) => (body += String(part)));
    req.on("end", () => {
      sent.push([req.method, req.url, JSON.parse(body || "null")]);
      res.setHeader("content-type", "application/json");
      res.end(JSON.stringify({ freed_bytes: 7, checkpoints: [{ name: "step 1", step: null }] }));
    });
  });
  expect(await client.removeCheckpoints("a", ["step 1", "500"], true)).toMatchObject({ freed_bytes: 7 });
  expect(await client.resumePoints("a")).toEqual([{ name: "step 1", step: null }]);
  expect(sent).toEqual([
    ["POST", "/jobs/a/checkpoints/remove", { names: ["step 1", "500"], dry_run: true }],
    ["GET", "/jobs/a/resume-points", null],
  ]);
});

test("an answer that is not a problem document is reported as such", async () => {
  const client = await serve((_, res) => void res.writeHead(502).end("<html>"));
  expect((await failure(client.jobs())).code).toBe("unexpected_answer");
});

test("a redirect is not followed", async () => {
  let asked = 0;
  const client = await serve((req, res) => {
    asked += 1;
    res.writeHead(302, { location: `http://${req.headers.host}/elsewhere` }).end();
  });
  expect((await failure(client.jobs())).code).toBe("unreachable");
  expect(asked).toBe(1);
});

test("a call to a silent server ends at its deadline", async () => {
  const client = await serve(() => {}, { deadlineMs: 150 });
  const e = await failure(client.jobs());
  expect([e.code, e.exit]).toEqual(["unreachable", 5]);
  expect(e.message).toContain("no answer in time");
  // A second control plane would be refused, and a second call could do the work twice.
  expect(e.hint).toContain("It may only be slow");
});

test("an answer is limited after decompression", async () => {
  const bomb = gzipSync(Buffer.alloc(8 * 1024 * 1024, "a"));
  const client = await serve((_, res) => void res.writeHead(200, { "content-encoding": "gzip" }).end(bomb), {
    bytesMax: 1024 * 1024,
  });
  expect((await failure(client.jobs())).message).toContain("larger than");
});

test("a port without a listener is `unreachable`, with the remedy", async () => {
  const client = await serve(() => {});
  await new Promise((r) => servers.splice(0)[0]?.close(r));
  const e = await failure(client.health());
  expect(e.message).toContain("connection refused");
  expect(e.hint).toContain("svc serve");
});

/** A home whose control plane answers with `other` to what is neither its health nor a hold. */
async function pretended(
  other: RequestListener,
  onHold: (socket: Socket) => void = () => {},
  ends = true,
): Promise<string> {
  const home = mkdtempSync(join(tmpdir(), "svc-held-"));
  const server = createServer((call, answer) => {
    if (call.url === "/v1/health") {
      answer.end(JSON.stringify({ status: "ok", installation_id: "i", home }));
    } else if (call.url === "/v1/hold") {
      answer.write(`{"hold":"h","ends_with_holders":${ends}}\n`);
      onHold(call.socket);
    } else other(call, answer);
  });
  servers.push(server);
  await new Promise<void>((r) => server.listen(0, "127.0.0.1", r));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const entry = { url, pid: process.pid, started_at: "", installation_id: "i" };
  writeFileSync(join(home, "control-plane.json"), JSON.stringify(entry), { mode: 0o600 });
  return home;
}

test("a control plane that did not answer once stays held until there is another: it may only be slow", async () => {
  let held = 0;
  let left = 0;
  const home = await pretended(
    () => {},
    (socket) => {
      held += 1;
      socket.once("close", () => {
        held -= 1;
        if (held === 0) left += 1;
      });
    },
  );
  await clientOf(home);
  forget(home);
  await clientOf(home);
  await vi.waitUntil(() => held === 1, DEADLINE_MS);
  expect(left).toBe(0);
  rmSync(home, { recursive: true });
});

test("Ctrl-C during a submission says that the run may continue", async () => {
  let asked = false;
  const home = await pretended(
    (call) => (asked ||= call.method === "POST"),
    () => {},
    false,
  );
  const sdk = JSON.stringify(join(import.meta.dirname, "../../sdk/index.ts"));
  const body = `import { run } from ${sdk}; await run({ task: { entrypoint: "t.py" } });`;
  const env = { ...process.env, SVC_HOME: home };
  const child = spawn(process.execPath, ["--input-type=module", "-e", body], {
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (part: string) => (said += part));
  await vi.waitUntil(() => asked, DEADLINE_MS);
  child.kill("SIGINT");
  expect(await new Promise((done) => child.once("close", done))).toBe(130);
  expect(said).toContain("if it was accepted, it continues, and its machine may cost money. `svc kill last` ends it.");
  expect(said).not.toContain("; continues");
  rmSync(home, { recursive: true });
});

test("a submission whose answer was lost is sent again under the same key, so that it makes one run", async () => {
  const keys: unknown[] = [];
  const home = await pretended((call, answer) => {
    keys.push(call.headers["idempotency-key"]);
    call.resume().once("end", () => {
      if (keys.length === 1) answer.destroy();
      else answer.writeHead(201).end(JSON.stringify({ id: "j" }));
    });
  });
  vi.stubEnv("SVC_HOME", home);
  const { id } = await run({ task: { entrypoint: "train.py" } });
  vi.unstubAllEnvs();
  expect([id, keys]).toEqual(["j", [keys[0], keys[0]]]);
  rmSync(home, { recursive: true });
});

test("an id cannot lead to another path", async () => {
  const urls: string[] = [];
  const client = await serve((req, res) => {
    urls.push(req.url ?? "");
    res.end("{}");
  });
  await client.job("../v1/machines?x=1#y");
  expect(urls).toEqual(["/jobs/..%2Fv1%2Fmachines%3Fx%3D1%23y"]);
});

test("the token is sent only on demand", async () => {
  const seen: (string | undefined)[] = [];
  const client = await serve(
    (req, res) => {
      seen.push(req.headers.authorization);
      res.writeHead(req.headers.authorization ? 200 : 401).end("{}");
    },
    { token: "secret" },
  );
  await client.job("a");
  await client.job("a");
  expect(seen).toEqual([undefined, "Bearer secret", "Bearer secret"]);
});

test("a followed log is its bytes from the offset, and a cut connection is an error, not an end", async () => {
  const urls: string[] = [];
  const client = await serve((req, res) => {
    urls.push(req.url ?? "");
    res.writeHead(200);
    res.write(Buffer.from([0xff, 0x0a, 0x00]));
    if (urls.length === 1) res.end();
    else setImmediate(() => res.destroy());
  });
  const parts: Uint8Array[] = [];
  for await (const part of client.followLog("j", 7)) parts.push(part);
  expect(Buffer.concat(parts)).toEqual(Buffer.from([0xff, 0x0a, 0x00]));
  expect(urls[0]).toBe("/jobs/j/logs?follow=1&offset=7");
  const e = await failure(
    (async () => {
      for await (const _ of client.followLog("j", 0));
    })(),
  );
  expect(e.code).toBe("unreachable");
});

test("following ends quietly when it is aborted", async () => {
  const quit = new AbortController();
  const client = await serve((_, res) => void res.write("x"));
  for await (const _ of client.followLog("j", 0, quit.signal)) quit.abort();
  expect(quit.signal.aborted).toBe(true);
});
