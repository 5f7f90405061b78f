// A proxy from the environment: a real one, which makes tunnels, before a real TLS server.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { proxyEnvOf } from "../../src/domain/proxy-env.ts";
import { mayHaveBeenSent, ProviderHttp } from "../../src/providers/http.ts";

const KEY = "pk-0123456789-secret";
const trusted = getCACertificates("default");
const folder = mkdtempSync(join(tmpdir(), "svc-proxy-"));
afterAll(() => {
  setDefaultCACertificates(trusted);
  rmSync(folder, { recursive: true, force: true });
});

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

describe("A call over https", { tags: "needs/openssl" }, () => {
  let pair: { key: string; cert: string };
  /** The bytes that the proxy read in clear. */
  let seen: string;
  let tunnels: string[];
  beforeAll(() => {
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const subject = ["-subj", "/CN=api.example.test", "-addext", "subjectAltName=DNS:api.example.test,IP:127.0.0.1"];
    const args = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert];
    execFileSync("openssl", [...args, ...subject], { stdio: "ignore" });
    pair = { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
    setDefaultCACertificates([...trusted, pair.cert]);
  });
  beforeEach(() => {
    [seen, tunnels] = ["", []];
  });

  /** Makes tunnels to `target`, whatever host is requested. */
  async function proxy(target: number, refuse = false): Promise<string> {
    const server = createServer((request, response) => {
      seen += `${request.method} ${request.url} ${JSON.stringify(request.headers)}`;
      response.writeHead(400).end();
    });
    server.on("connect", (request, socket, head) => {
      tunnels.push(request.url ?? "");
      seen += JSON.stringify(request.headers);
      if (refuse) return void socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
      const upstream = connect(target, "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
        upstream.write(head);
        socket.on("data", (chunk: Buffer) => (seen += chunk.toString("latin1")));
        socket.pipe(upstream).pipe(socket);
      });
      for (const one of [socket, upstream]) one.on("error", () => [socket, upstream].map((end) => end.destroy()));
    });
    return `http://127.0.0.1:${await listening(server)}`;
  }
  const provider = (answer: RequestListener): Promise<number> => listening(createTlsServer(pair, answer));
  const client = (baseUrl: string, env: NodeJS.ProcessEnv): ProviderHttp =>
    new ProviderHttp({ provider: "podhost", baseUrl, userAgent: "svc", env });
  const call = (http: ProviderHttp) =>
    http.call({ method: "POST", path: "/v2/pods", json: { name: "x" }, headers: { authorization: `Bearer ${KEY}` } });

  test("goes through a tunnel of the proxy, which does not see the key", async () => {
    const port = await provider((request, response) =>
      response.end(JSON.stringify({ key: request.headers.authorization })),
    );
    const answer = await call(client("https://api.example.test", { HTTPS_PROXY: await proxy(port) }));
    // The answer repeats the key, and svc masks it.
    expect(answer.status).toBe(200);
    expect(tunnels).toEqual(["api.example.test:443"]);
    expect(seen).not.toContain(KEY);
  });

  test("goes straight if NO_PROXY names its host, and to this computer", async () => {
    const port = await provider((_request, response) => response.end("{}"));
    for (const env of [{ NO_PROXY: "example.org" }, { no_proxy: "127.0.0.1" }, {}])
      await call(client(`https://127.0.0.1:${port}`, { HTTPS_PROXY: await proxy(port), ...env }));
    expect(tunnels).toEqual([]);
  });

  test("may have been sent if its answer is lost behind the tunnel", async () => {
    const port = await provider((request) => request.socket.destroy());
    const error = await call(client("https://api.example.test", { HTTPS_PROXY: await proxy(port) })).catch(
      (e: unknown) => e,
    );
    expect(error).toMatchObject({ code: "provider_unreachable" });
    expect(mayHaveBeenSent(error)).toBe(true);
  });

  test.each<[string, (port: number) => Promise<string>]>([
    ["refuses the tunnel", (port) => proxy(port, true)],
    ["is not there", () => Promise.resolve("http://127.0.0.1:9")],
  ])("was never sent where the proxy %s", async (_what, proxyOf) => {
    const port = await provider((_request, response) => response.end("{}"));
    const started = performance.now();
    const error = await call(client("https://api.example.test", { HTTPS_PROXY: await proxyOf(port) })).catch(
      (e: unknown) => e,
    );
    expect(error).toMatchObject({ code: "provider_unreachable" });
    expect(mayHaveBeenSent(error)).toBe(false);
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

test("A call over plain http, which only reaches this computer, uses no proxy", async () => {
  const port = await listening(createServer((_request, response) => response.end("{}")));
  const env = { HTTPS_PROXY: "http://127.0.0.1:9", HTTP_PROXY: "http://127.0.0.1:9", ALL_PROXY: "http://127.0.0.1:9" };
  const http = new ProviderHttp({ provider: "podhost", baseUrl: `http://127.0.0.1:${port}`, userAgent: "svc", env });
  expect((await http.call({ method: "GET", path: "/" })).status).toBe(200);
});

test("The proxy is read as curl reads it, and an invalid address is ignored", () => {
  expect(proxyEnvOf({ HTTPS_PROXY: "http://a:1", https_proxy: "http://b:2" })?.https_proxy).toBe("http://b:2");
  expect(proxyEnvOf({ HTTPS_PROXY: "http://a:1", NO_PROXY: ".corp" })?.no_proxy).toBe(".corp,localhost,127.0.0.1,::1");
  for (const proxy of ["", "nonsense", "socks5://a:1", undefined])
    expect(proxyEnvOf({ HTTPS_PROXY: proxy })).toBeUndefined();
});
