// A proxy from the environment: a real one, which makes witness.tunnels, before a real TLS server.

import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { proxyEnvOf } from "../../src/domain/proxy-env.ts";
import { listening, proxyTo, trustedCertificates, type Witness } from "../tunnelling-proxy.ts";
import { mayHaveBeenSent, ProviderHttp } from "../../src/providers/http.ts";

const KEY = "pk-0123456789-secret";
const certificate = trustedCertificates();

describe("A call over https", { tags: "needs/openssl" }, () => {
  let pair: { key: string; cert: string };
  let witness: Witness;
  beforeAll(() => {
    pair = certificate("api.example.test", "DNS:api.example.test,IP:127.0.0.1");
  });
  beforeEach(() => {
    witness = { seen: "", tunnels: [] };
  });

  const proxy = (target: number, refuses = false) => proxyTo(target, witness, { refuses });
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
    expect(witness.tunnels).toEqual(["api.example.test:443"]);
    expect(witness.seen).not.toContain(KEY);
  });

  test("goes straight if NO_PROXY names its host, and to this computer", async () => {
    const port = await provider((_request, response) => response.end("{}"));
    for (const env of [{ NO_PROXY: "example.org" }, { no_proxy: "127.0.0.1" }, {}])
      await call(client(`https://127.0.0.1:${port}`, { HTTPS_PROXY: await proxy(port), ...env }));
    expect(witness.tunnels).toEqual([]);
  });

  test("counts as possibly sent if its answer is lost behind the tunnel", async () => {
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
