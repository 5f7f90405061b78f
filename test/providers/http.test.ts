// The client for every provider's API, against a server that misbehaves.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createSocketServer, type AddressInfo, type Server } from "node:net";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createTlsServer } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { mayHaveBeenSent, outcomeOfCreate, ProviderHttp, retryAfterMs } from "../../src/providers/http.ts";
import { RateLimiter } from "../../src/providers/rate-limiter.ts";

const KEY = "rp_very_secret_key";
const open: Server[] = [];
afterEach(async () => {
  await Promise.all(
    open.splice(0).map(
      (server) =>
        new Promise<void>((resolve) => {
          if ("closeAllConnections" in server) (server.closeAllConnections as () => void)();
          server.close(() => resolve());
        }),
    ),
  );
});

async function listen(server: Server): Promise<string> {
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
const serve = (handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> =>
  listen(createServer(handler));
const client = (baseUrl: string, options: { timeoutMs?: number; maxBytes?: number } = {}): ProviderHttp =>
  new ProviderHttp({ provider: "podhost", baseUrl, userAgent: "svc/test", ...options });

async function thrownBy(promise: Promise<unknown>): Promise<SvcError> {
  const error: unknown = await promise.then(
    () => null,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(SvcError);
  return error as SvcError;
}

describe("a call", () => {
  test("reads NaN and Infinity as text, which does not count as a number, and makes JSON of nothing else", async () => {
    const bodies = [
      '{"price":NaN,"low":-Infinity,"say":"NaN, \\"Infinity\\""}',
      '[nan,inf,+Infinity,-inf,"inf"]',
      '{"price":NaN',
      "NaNa",
      "<NaN>",
    ];
    const base = await serve((_, response) => void response.end(bodies.shift()));
    const next = async () => (await client(base).call({ method: "GET", path: "/" })).json();
    expect(await next()).toEqual({ price: "NaN", low: "-Infinity", say: 'NaN, "Infinity"' });
    expect(await next()).toEqual(["nan", "inf", "+Infinity", "-inf", "inf"]);
    expect([await next(), await next(), await next()]).toEqual([undefined, undefined, undefined]);
  });
  test("reads an answer of thousands of offers, and no flood of lists, which would keep the program busy for seconds", async () => {
    const facts = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`field_${i}`, i % 2 === 0 ? i / 7 : null]));
    const offers = { offers: Array.from({ length: 3_000 }, (_, id) => ({ id, ...facts })) };
    const long = "12345678901234567890";
    const bodies = [
      JSON.stringify(offers),
      `[${"[[[]]],".repeat(1_100_000)}0]`,
      `[${"[],".repeat(2_000_000)}${long}]`,
      `${"[".repeat(100)}${long}${"]".repeat(100)}`,
      `[${long},{"a":[[]]}]`,
    ];
    const base = await serve((_, response) => void response.end(bodies.shift()));
    const next = () => client(base).call({ method: "GET", path: "/" });
    const large = await next();
    expect(large.json()).toEqual(offers);
    expect(large.json(), "parsed once").toBe(large.json());
    for (let flood = 0; flood < 3; flood++) expect((await next()).json()).toBeUndefined();
    expect((await next()).json()).toEqual([long, { a: [[]] }]);
  });
  test("carries query, headers and a JSON body, and returns status, headers and JSON", async () => {
    const seen: { url: string; type: string; body: string; agent: string }[] = [];
    const base = await serve((request, response) => {
      let body = "";
      request.on("data", (chunk) => (body += chunk));
      request.on("end", () => {
        const { "content-type": type = "", "user-agent": agent = "" } = request.headers;
        seen.push({ url: request.url ?? "", type, body, agent });
        response.writeHead(201, { "content-type": "application/json", "content-encoding": "gzip" });
        response.end(gzipSync('{"ok":[1]}'));
      });
    });
    const http = client(`${base}/api/`);
    const answer = await http.call({
      method: "POST",
      path: "/a b",
      query: { q: "x&y", n: 2, no: undefined },
      json: { a: 1 },
    });
    expect(answer.status).toBe(201);
    expect(answer.json()).toEqual({ ok: [1] });
    await http.call({ method: "POST", path: "/form", form: { a: "1 2" } });
    expect(seen).toEqual([
      { url: "/api/a%20b?q=x%26y&n=2", type: "application/json", body: '{"a":1}', agent: "svc/test" },
      { url: "/api/form", type: "application/x-www-form-urlencoded", body: "a=1+2", agent: "svc/test" },
    ]);
  });

  test("a byte order mark before JSON says nothing", async () => {
    const base = await serve((_, response) => response.end('\uFEFF{"ok":[1]}'));
    expect((await client(base).call({ method: "GET", path: "/" })).json()).toEqual({ ok: [1] });
  });

  test("an answer of any status without JSON is an answer; a page is recognised", async () => {
    const base = await serve((_, response) => response.writeHead(502, { "content-type": "text/html" }).end("<html>no"));
    const answer = await client(base).call({ method: "GET", path: "/" });
    expect([answer.status, answer.json(), answer.isHtml]).toEqual([502, undefined, true]);
  });

  test("a redirect is not followed", async () => {
    const paths: string[] = [];
    const base = await serve((request, response) => {
      paths.push(request.url ?? "");
      response.writeHead(302, { location: "/other" }).end();
    });
    const error = await thrownBy(client(base).call({ method: "GET", path: "/a", headers: { authorization: KEY } }));
    expect(error.code).toBe("provider_error");
    expect(error.message).toContain("redirects to another address");
    expect(paths).toEqual(["/a"]);
  });

  test("a body that inflates without end is dropped at the cap", async () => {
    const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024));
    const base = await serve((_, response) => response.writeHead(200, { "content-encoding": "gzip" }).end(bomb));
    const before = process.memoryUsage().rss;
    const error = await thrownBy(client(base).call({ method: "GET", path: "/" }));
    expect(error.code).toBe("provider_error");
    expect(error.message).toContain("larger than");
    expect(process.memoryUsage().rss - before).toBeLessThan(120 * 1024 * 1024);
  });

  test("a body of the largest size passes, one byte more does not", async () => {
    const base = await serve((request, response) => response.end("x".repeat(Number(request.url?.slice(1)))));
    const http = client(base, { maxBytes: 1000 });
    expect((await http.call({ method: "GET", path: "/1000" })).text).toHaveLength(1000);
    expect((await thrownBy(http.call({ method: "GET", path: "/1001" }))).code).toBe("provider_error");
  });

  test("a body that drips past the deadline ends the call", async () => {
    const base = await serve((_, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write("x"), 20);
      response.on("close", () => clearInterval(timer));
    });
    const error = await thrownBy(client(base, { timeoutMs: 300 }).call({ method: "GET", path: "/" }));
    expect(error.code).toBe("provider_unreachable");
    expect(error.message).toContain("no answer within 0.3 s");
    expect(mayHaveBeenSent(error)).toBe(true);
  });

  test.each([
    ["plain", {}, Buffer.from('{"a":')],
    ["compressed", { "content-encoding": "gzip" }, gzipSync('{"a":1}').subarray(0, 12)],
  ])("a truncated %s body does not count as an answer", async (_, headers, body) => {
    const base = await serve((_request, response) => {
      response.writeHead(200, { "content-length": 100, ...headers });
      response.write(body, () => response.destroy());
    });
    const error = await thrownBy(client(base).call({ method: "GET", path: "/" }));
    expect(error.code).toBe("provider_unreachable");
    expect(mayHaveBeenSent(error)).toBe(true);
  });

  test("damaged compression and unknown encodings are errors, too", async () => {
    const base = await serve((request, response) =>
      response.writeHead(200, { "content-encoding": request.url === "/z" ? "zstd" : "gzip" }).end("not gzip"),
    );
    expect((await thrownBy(client(base).call({ method: "GET", path: "/g" }))).code).toBe("provider_unreachable");
    expect((await thrownBy(client(base).call({ method: "GET", path: "/z" }))).code).toBe("provider_error");
  });

  test("an abort throws its reason and closes the connection", async () => {
    let closed: () => void = () => undefined;
    const gone = new Promise<void>((resolve) => (closed = resolve));
    const control = new AbortController();
    const base = await serve((request) => {
      request.socket.on("close", closed);
      control.abort("killed");
    });
    await expect(client(base).call({ method: "GET", path: "/", signal: control.signal })).rejects.toBe("killed");
    await gone;
    await expect(client(base).call({ method: "GET", path: "/", signal: control.signal })).rejects.toBe("killed");
  });

  test("an answer that repeats the key is masked, in each form in which a request carries one", async () => {
    const base = await serve((request, response) => {
      let body = "";
      request.on("data", (chunk) => (body += chunk));
      request.on("end", () => response.end(JSON.stringify({ headers: request.headers, body })));
    });
    const basic = Buffer.from(`api:${KEY}`).toString("base64");
    for (const given of [
      { headers: { authorization: `Bearer ${KEY}` } },
      { headers: { authorization: `Basic ${basic}` } },
      { headers: { "x-api-key": KEY } },
      { form: { client_secret: KEY } },
    ]) {
      const answer = await client(base).call({ method: "POST", path: "/", ...given });
      expect(answer.text).toContain("***redacted***");
      expect(answer.text).not.toContain(KEY);
      expect(answer.text).not.toContain(basic);
    }
  });
  test("an answer that writes the key in escapes of JSON holds it nowhere once it is read", async () => {
    const escaped = Array.from(KEY, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
    const base = await serve(
      (_, response) => void response.end(`{"error":{"message":"no ${escaped}","${escaped}":1}}`),
    );
    const answer = await client(base).call({ method: "GET", path: "/", headers: { authorization: `Bearer ${KEY}` } });
    expect(answer.json()).toEqual({ error: { message: "no ***redacted***", "***redacted***": 1 } });
  });
  test("a whole number that a double cannot hold is read as its digits, and any other value as always", async () => {
    const text =
      '{"id":9007199254740993,"list":[-12345678901234567890,1.00000000000000001,9007199254740991,1e20],"s":"1"}';
    const base = await serve((_, response) => void response.end(text));
    expect((await client(base).call({ method: "GET", path: "/" })).json()).toEqual({
      id: "9007199254740993",
      list: ["-12345678901234567890", 1, 9007199254740991, 1e20],
      s: "1",
    });
  });
  test("error texts hold neither keys nor query strings nor bodies", async () => {
    const server = createSocketServer((socket) => socket.once("data", () => socket.destroy()));
    const http = client(await listen(server));
    const headers = { authorization: `Bearer ${KEY}` };
    const cut = await thrownBy(
      http.call({ method: "POST", path: "/p", query: { api_key: KEY }, headers, json: { KEY } }),
    );
    const bad = await thrownBy(http.call({ method: "POST", path: "/p", headers: { authorization: `${KEY}\nx` } }));
    expect(cut.message).toContain("POST 127.0.0.1:");
    expect(bad.code).toBe("credential_refused");
    for (const error of [cut, bad])
      expect(`${error.message} ${error.hint} ${JSON.stringify(error.data)}`).not.toContain(KEY);
  });
});

describe("whether a request left", () => {
  test("is known for a refused connection, an unknown name and a failed handshake: it did not", async () => {
    const server = createSocketServer();
    const base = await listen(server);
    open.pop();
    await new Promise((resolve) => server.close(resolve));
    const refused = await thrownBy(client(base).call({ method: "POST", path: "/", json: {} }));
    const unknown = await thrownBy(client("https://no-such-name.invalid").call({ method: "POST", path: "/" }));
    const notTls = await listen(
      createSocketServer((socket) => socket.once("data", () => socket.end("HTTP/1.1 400\r\n\r\n"))),
    );
    const handshake = await thrownBy(client(notTls.replace("http:", "https:")).call({ method: "POST", path: "/" }));
    for (const error of [refused, unknown, handshake]) {
      expect(error.code).toBe("provider_unreachable");
      expect(mayHaveBeenSent(error), error.message).toBe(false);
      expect(outcomeOfCreate(error, "podhost", "create")).toBe(error);
    }
  });

  test("is unknown if the connection is cut after the request", async () => {
    const base = await listen(createSocketServer((socket) => socket.once("data", () => socket.destroy())));
    const error = await thrownBy(client(base).call({ method: "POST", path: "/", json: {} }));
    expect(mayHaveBeenSent(error)).toBe(true);
    expect(outcomeOfCreate(error, "podhost", "create a pod")).toMatchObject({ code: "outcome_unknown", cause: error });
  });

  test("an explicit refusal stays a refusal; anything else is unknown", () => {
    const taken = new SvcError("offer_taken", { provider: "podhost", offer: "o", why: "w" });
    expect(outcomeOfCreate(taken, "podhost", "create")).toBe(taken);
    for (const e of [new Error("x"), undefined, new SvcError("provider_error", { provider: "podhost", why: "500" })])
      expect(outcomeOfCreate(e, "podhost", "create").code).toBe("outcome_unknown");
  });
});

describe("hosts that may receive keys", () => {
  test.each([
    "http://example.com",
    "http://127.0.0.1.example.com",
    "http://10.0.0.1",
    "ftp://localhost",
    "not a url",
    "https://u:p@h",
  ])("%s is refused", (base) => {
    expect(() => client(base)).toThrow(expect.objectContaining({ code: "provider_unavailable" }));
  });
  test.each(["https://api.example.com/v1/", "http://127.0.0.1:1", "http://localhost", "http://[::1]:80/x"])(
    "%s is fine",
    (base) => {
      expect(client(base).base.href).toContain("://");
    },
  );
});

describe("rate limits", () => {
  test.each([
    [{ "retry-after": "7" }, 7_000],
    [{ "retry-after": "Sat, 01 Jan 2000 00:00:30 GMT" }, 30_000],
    [{ "retry-after": "99999999" }, 120_000],
    [{ "retry-after": "soon" }, null],
    [{ ratelimit: '"default";r=0;t=12' }, 12_000],
    [{ ratelimit: "limit=60, remaining=0, reset=5" }, 5_000],
    [{ ratelimit: '"default";r=3;t=12' }, null],
    [{ "ratelimit-remaining": "0", "ratelimit-reset": "4" }, 4_000],
    [{}, null],
  ])("%j asks for %s ms", (headers, ms) => {
    expect(retryAfterMs(headers as Record<string, string>, Date.parse("2000-01-01T00:00:00Z"))).toBe(ms);
  });

  test("calls are served one by one, and a call that would wait too long fails at once", async () => {
    let now = 1_000;
    const waits: number[] = [];
    const pause = async (ms: number) => void waits.push(ms);
    const limiter = new RateLimiter({ provider: "market", minIntervalMs: 2_000, now: () => now, pause });
    await Promise.all([limiter.slot(), limiter.slot(), limiter.slot()]);
    expect(waits).toEqual([2_000, 4_000]);
    limiter.hold(60_000);
    const error = await thrownBy(limiter.slot());
    expect(error.message).toContain("the next request is allowed in 60 s");
    expect(mayHaveBeenSent(error)).toBe(false);
    now += 60_001;
    await limiter.slot();
    expect(waits).toHaveLength(2);
  });
});

describe("no connection: the host, and what it means", () => {
  /** A self-signed certificate. */
  function tlsServer(name: string): Server {
    const dir = mkdtempSync(join(tmpdir(), "svc-tls-"));
    const at = (file: string): string => join(dir, file);
    const made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", `/CN=${name}`];
    execFileSync("openssl", [...made, "-keyout", at("key"), "-out", at("cert")], { stdio: "ignore" });
    const [key, cert] = [readFileSync(at("key")), readFileSync(at("cert"))];
    rmSync(dir, { recursive: true });
    return createTlsServer({ key, cert }, (_, response) => void response.end("{}"));
  }
  const plainHttp = () => serve((_, response) => void response.end("{}"));
  const https = async (server: Promise<string>): Promise<string> => (await server).replace("http:", "https:");

  const fails = async (base: string, words: RegExp): Promise<void> => {
    const error = await thrownBy(client(base).call({ method: "GET", path: "/x" }));
    expect(error).toMatchObject({ code: "provider_unreachable", message: expect.stringMatching(words) as string });
    expect(mayHaveBeenSent(error)).toBe(false);
  };

  test.each([
    ["a port where nobody listens", () => Promise.resolve("http://127.0.0.1:9"), /127\.0\.0\.1:9\/x: nothing listens/],
    [
      "a name that is none",
      () => Promise.resolve("https://api.invalid"),
      /api\.invalid\/x: its name cannot be resolved/,
    ],
    ["no TLS at all", () => https(plainHttp()), /127\.0\.0\.1:\d+\/x: what answers there does not speak https/],
  ])("%s", async (_, base, words) => fails(await base(), words));

  test("a self-signed certificate", { tags: "needs/openssl" }, async () => {
    await fails(await https(listen(tlsServer("127.0.0.1"))), /not from a trusted CA.*NODE_EXTRA_CA/);
  });
});
