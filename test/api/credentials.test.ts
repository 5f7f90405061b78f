import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { serve } from "./double.ts";
import { ask } from "./wire.ts";

const JSON_TYPE = { "content-type": "application/json" };
const put = (port: number, name: string, body: unknown, headers: Record<string, string> = JSON_TYPE) =>
  ask({
    port,
    path: `/v1/credentials/${name}`,
    method: "PUT",
    headers,
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

it("Credentials are set, seen masked and removed", async () => {
  const { plane, server } = await serve();
  const saved = await put(server.port, "hub?check=true", { token: "hf_0123456789abcdef", cache_dir: "/models" });
  expect([saved.status, saved.json]).toEqual([
    200,
    {
      name: "hub",
      credential: {
        token: { value: "…cdef", source: "store", read_only: false },
        cache_dir: { value: "/models", source: "store", read_only: false },
      },
      check: { account: "somebody", may: [], balance_usd: null, warnings: [] },
    },
  ]);
  const listed = await ask({ port: server.port, path: "/v1/credentials" });
  expect(listed.json).toMatchObject({ hub: saved.json.credential, tracker: {}, providers: { podhost: {} } });
  expect(listed.text).not.toContain("0123");
  expect(readFileSync(join(plane.home, "credentials.json"), "utf8")).toContain("hf_0123456789abcdef");
  const checked = await ask({ port: server.port, path: "/v1/credentials/hub/check", method: "POST" });
  expect([checked.status, checked.json.account]).toEqual([200, "somebody"]);
  const removed = await ask({ port: server.port, path: "/v1/credentials/hub", method: "DELETE" });
  expect([removed.status, removed.json.credential]).toEqual([200, {}]);
  expect((await ask({ port: server.port, path: "/v1/credentials" })).json.hub).toEqual({});
});

it.each<[string, string, unknown, Record<string, string>, number, string]>([
  [
    "a form of another page",
    "hub",
    "token=x",
    { "content-type": "application/x-www-form-urlencoded" },
    415,
    "unsupported_media_type",
  ],
  [
    "text that looks like JSON",
    "hub",
    '{"token":"x"}',
    { "content-type": "text/plain" },
    415,
    "unsupported_media_type",
  ],
  ["JSON of no type", "hub", '{"token":"x"}', {}, 415, "unsupported_media_type"],
  [
    "a foreign page",
    "hub",
    '{"token":"x"}',
    { ...JSON_TYPE, origin: "https://elsewhere.example" },
    403,
    "origin_refused",
  ],
  [
    "a page that is the same site and no more",
    "hub",
    '{"token":"x"}',
    { ...JSON_TYPE, "sec-fetch-site": "same-site" },
    403,
    "origin_refused",
  ],
  ["a name that was rebound", "hub", '{"token":"x"}', { ...JSON_TYPE, host: "elsewhere.example" }, 403, "host_refused"],
  ["a key of prototypes", "hub", '{"__proto__":{"token":"x"}}', JSON_TYPE, 400, "invalid_json"],
  ["a field twice", "hub", '{"token":"x","token":"y"}', JSON_TYPE, 400, "invalid_json"],
  ["a list", "hub", "[]", JSON_TYPE, 400, "invalid_request"],
  ["nothing", "hub", "", JSON_TYPE, 400, "invalid_json"],
  ["a check that is neither", "hub?check=maybe", '{"token":"x"}', JSON_TYPE, 400, "invalid_request"],
  ["another block of the file", "providers", '{"token":"x"}', JSON_TYPE, 400, "invalid_request"],
  ["a path", "..%2fhub", '{"token":"x"}', JSON_TYPE, 400, "invalid_request"],
])("Credentials of %s are refused, and nothing is written", async (_what, name, body, headers, status, code) => {
  const { plane, server } = await serve();
  const reply = await put(server.port, name, body, headers);
  expect([reply.status, reply.json.code]).toEqual([status, code]);
  expect(plane.credentials.list().hub).toEqual({});
});

it.each(['{"token": hf_0123456789abcdef}', "hf_0123456789abcdef", '{"token": "\n", "a": hf_0123456789abcdef\n}'])(
  "of which the JSON is wrong are not quoted: %j",
  async (body) => {
    const { server } = await serve();
    const reply = await put(server.port, "hub", body);
    expect([reply.status, reply.json.code]).toEqual([400, "invalid_json"]);
    expect(reply.text).not.toContain("hf_");
  },
);

it("Credentials are not removed by a page of another origin", async () => {
  const { plane, server } = await serve();
  await put(server.port, "hub", { token: "hf_0123456789abcdef" });
  const origin = "https://elsewhere.example";
  const reply = await ask({ port: server.port, path: "/v1/credentials/hub", method: "DELETE", headers: { origin } });
  expect(reply.json.code).toBe("origin_refused");
  expect(plane.credentials.list().hub).toHaveProperty("token");
});

it("The path of a credential lists the allowed methods", async () => {
  const { server } = await serve();
  const reply = await ask({ port: server.port, path: "/v1/credentials/hub" });
  expect([reply.status, reply.headers.allow]).toEqual([405, "DELETE, PUT"]);
});
