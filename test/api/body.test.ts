import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checked } from "../../src/api/field-errors.ts";
import { NotifyTarget } from "../../src/schemas/notify.ts";
import { parseStrictJson } from "../../src/api/strict-json.ts";
import { serve } from "./double.ts";
import { ask, post, raw } from "./wire.ts";

const deep = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
const withSpec = (fields: string): string => `{"spec": {"entrypoint": "a.py"${fields && `, ${fields}`}}}`;

describe("bodies that are not JSON", () => {
  it.each<[string, string | Buffer, string]>([
    ["nothing", "", "empty"],
    ["words", "hello", "JSON"],
    ["half an object", '{"spec": {', "JSON"],
    ["two values", "{} {}", "JSON"],
    ["a trailing comma", '{"spec": {},}', "JSON"],
    ["NaN", withSpec('"price_cap": NaN'), "JSON"],
    ["Infinity", withSpec('"price_cap": Infinity'), "JSON"],
    ["a comment", "{/* */}", "JSON"],
    ["single quotes", "{'spec': 1}", "JSON"],
    ["a broken byte", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), "UTF-8"],
    ["UTF-16", Buffer.from(withSpec(""), "utf16le"), "JSON"],
    [
      "an overlong form",
      Buffer.concat([Buffer.from('{"label": "'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
      "UTF-8",
    ],
    ["33 lists in each other", deep(33), "deep"],
    ["200,000 lists in each other", deep(200_000), "deep"],
    ["a key twice", '{"spec": {"entrypoint": "a.py", "entrypoint": "b.py"}}', "twice"],
    ["a key twice in disguise", '{"spec": {"a": 1, "\\u0061": 2}}', "twice"],
    ["__proto__", withSpec('"__proto__": {"provider": "market"}'), "__proto__"],
    ["__proto__ in disguise", withSpec('"env": {"\\u005f_proto__": "x"}'), "__proto__"],
  ])("refuses %s", async (_what, body, word) => {
    const { plane, server } = await serve();
    const reply = await post(server.port, "/jobs", body);
    expect([reply.status, reply.json.code]).toEqual([400, "invalid_json"]);
    expect(reply.json.detail).toContain(word);
    expect(plane.submitted).toEqual([]);
  });

  it("agrees with JSON.parse on every valid text", () => {
    const seed = Date.now();
    console.log(`seed ${seed}`);
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        const value: unknown = JSON.parse(text);
        // fast-check may draw the key __proto__ itself.
        if (!text.includes("__proto__")) expect(parseStrictJson(Buffer.from(text))).toEqual(value);
      }),
      { seed, numRuns: 300 },
    );
  });

  it("allows brackets and quotes inside of strings", () => {
    const value = { a: '{"a": [[[', b: '\\"', c: [{ a: 1 }, { a: 2 }], "": '"', d: "\\" };
    expect(parseStrictJson(Buffer.from(JSON.stringify(value)))).toEqual(value);
    expect(parseStrictJson(Buffer.from(deep(32)))).toEqual(JSON.parse(deep(32)));
  });
});

describe("bodies that are not sent as JSON", () => {
  it.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json garbage",
    "application/jsonx",
    "application/json; charset=latin1",
    "application/json, text/plain",
    "text/plain; application/json",
    "application/json; charset=utf-8; x=y",
    "Application",
    "application/json\t garbage",
    "application/problem+json",
  ])("refuses the type %s", async (type) => {
    const { plane, server } = await serve();
    for (const path of ["/jobs", "/jobs/kill", "/v1/reconcile"]) {
      const reply = await post(server.port, path, { spec: { entrypoint: "a.py" } }, { "content-type": type });
      expect([reply.status, reply.json.code]).toEqual([415, "unsupported_media_type"]);
    }
    expect([plane.submitted.length, plane.reconciled.length]).toEqual([0, 0]);
  });

  it.each(["application/json", "application/json;charset=utf-8", 'APPLICATION/JSON; Charset="UTF-8"'])(
    "takes the type %s",
    async (type) => {
      const { server } = await serve();
      expect(
        (await post(server.port, "/jobs", { spec: { entrypoint: "a.py" } }, { "content-type": type })).status,
      ).toBe(201);
    },
  );

  it("refuses a body without a type, and one that is compressed", async () => {
    const { server } = await serve();
    expect((await ask({ port: server.port, path: "/jobs", method: "POST", body: withSpec("") })).status).toBe(415);
    const packed = await post(server.port, "/jobs", withSpec(""), { "content-encoding": "gzip" });
    expect([packed.status, packed.json.errors[0].field]).toEqual([415, "Content-Encoding"]);
  });

  it("refuses more than 1 MiB, announced or not", async () => {
    const { plane, server } = await serve();
    const head = `POST /jobs HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nContent-Type: application/json\r\n`;
    expect(await raw(server.port, `${head}Content-Length: 1048577\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 413 [^]*body_too_large/,
    );
    expect(
      await raw(
        server.port,
        `${head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n100001\r\n${" ".repeat(0x100001)}\r\n0\r\n\r\n`,
      ),
    ).toMatch(/^HTTP\/1\.1 413 [^]*body_too_large/);
    expect(await raw(server.port, `${head}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}`)).toMatch(
      /^HTTP\/1\.1 400 /,
    );
    expect(plane.submitted).toEqual([]);
  });
});

describe("fields", () => {
  it.each<[string, string, RegExp]>([
    ['{"spec": {}}', "spec.entrypoint", /^is required$/],
    ["{}", "spec", /^is required$/],
    ["[]", "body", /^must be an object, not a list$/],
    ["null", "body", /^must be an object, not null$/],
    ['"x"', "body", /^must be an object, not text$/],
    ['{"spec": {"entrypoint": 5}}', "spec.entrypoint", /^must be text, not a number$/],
    ['{"spec": {"entrypoint": ""}}', "spec.entrypoint", /empty/],
    ['{"spec": {"entrypoint": "a\\u0000b"}}', "spec.entrypoint", /control/],
    ['{"spec": {"entrypoint": "a\\nb"}}', "spec.entrypoint", /control|line/],
    ['{"spec": {"entrypoint": "\\ud800"}}', "spec.entrypoint", /Unicode/],
    [`{"spec": {"entrypoint": "${"a".repeat(1_025)}"}}`, "spec.entrypoint", /1024/],
    [withSpec('"price_cap": 1e999'), "spec.price_cap", /finite/],
    [withSpec('"price_cap": -1e999'), "spec.price_cap", /finite/],
    [withSpec('"price_cap": 0'), "spec.price_cap", /more than 0/],
    [withSpec('"price_cap": "3"'), "spec.price_cap", /number/],
    [withSpec('"price_cap": null'), "spec.price_cap", /number/],
    [withSpec('"nodes": 1.5'), "spec.nodes", /whole/],
    [withSpec('"nodes": 65'), "spec.nodes", /64/],
    [withSpec('"nodes": 0'), "spec.nodes", /at least 1/],
    [withSpec('"min_vram_gb": 9007199254740993'), "spec.min_vram_gb", /whole|at most/],
    [withSpec('"disk_gb": -1'), "spec.disk_gb", /at least/],
    [withSpec('"idle_timeout_minutes": -1'), "spec.idle_timeout_minutes", /0 or more/],
    [withSpec('"max_runtime_minutes": 1e999'), "spec.max_runtime_minutes", /finite/],
    [withSpec('"terminate_on_exit": "yes"'), "spec.terminate_on_exit", /^must be true or false, not text$/],
    [withSpec('"provider": "moon"'), "spec.provider", /^must be one of local, podhost[a-z, ]*$/],
    [withSpec('"provider": "runpod"'), "spec.provider", /; RunPod is called podhost here$/],
    [withSpec('"gpus": "A100:0"'), "spec.gpus", /COUNT/],
    [withSpec('"gpus": "-oProxyCommand=x"'), "spec.gpus", /must be/],
    [withSpec('"args": "x"'), "spec.args", /^must be a list, not text$/],
    [withSpec('"args": ["a", 1]'), "spec.args[1]", /^must be text, not a number$/],
    [withSpec('"env": {"A B": "x"}'), 'spec.env["A B"]', /variable name/],
    [withSpec('"env": {"A": "file:///etc/passwd"}'), "spec.env.A", /owner/],
    [withSpec('"env": ["A"]'), "spec.env", /^must be an object, not a list$/],
    [withSpec('"sinks": [{"kind": "x", "url": "u", "what": []}]'), "spec.sinks[0].kind", /one of objstore_a/],
    [withSpec('"pricecap": 1'), "spec.pricecap", /^is not a known field; did you mean price_cap\?$/],
    [withSpec('"gpu": "A100"'), "spec.gpu", /^is not a known field; did you mean gpus\?$/],
    [withSpec('"candidates": [{"gpu": "A100"}]'), "spec.candidates[0].gpu", /; did you mean gpus\?$/],
    ['{"specs": {"entrypoint": "a.py"}}', "specs", /^is not a known field; did you mean spec\?$/],
    [withSpec('"constructor": {"prototype": {}}'), "spec.constructor", /^is not a known field$/],
    [withSpec('"a b\\u0007": 1'), 'spec["a b\\u0007"]', /^is not a known field$/],
    ['{"spec": {"entrypoint": "a.py"}, "wait": true}', "wait", /^is not a known field$/],
    ['{"label": 3, "spec": {"entrypoint": "a.py"}}', "label", /^must be text, not a number$/],
    [`{"label": "${"x".repeat(201)}", "spec": {"entrypoint": "a.py"}}`, "label", /200/],
  ])("answers %s by naming %s", async (body, field, words) => {
    const { plane, server } = await serve();
    const reply = await post(server.port, "/jobs", body);
    expect([reply.status, reply.json.code, reply.headers["content-type"]]).toEqual([
      400,
      "invalid_request",
      "application/problem+json; charset=utf-8",
    ]);
    expect(reply.json.errors.map((error: { field: string }) => error.field)).toContain(field);
    expect(reply.json.errors.find((error: { field: string }) => error.field === field).message).toMatch(words);
    expect(reply.json.hint).toContain("Nothing was started");
    expect(plane.submitted).toEqual([]);
  });

  it("suggests a field of the kind that the body names, and ends the question with one mark", () => {
    const body = { kind: "ntfy", topic: "x", allow_privat: true };
    const words = "The request is not valid: allow_privat is not a known field; did you mean allow_private?";
    expect(() => checked(NotifyTarget, body, "target")).toThrow(expect.objectContaining({ message: words }));
  });

  it("names every invalid field at once, up to a limit", async () => {
    const { server } = await serve();
    const reply = await post(server.port, "/jobs", { label: 1, spec: { nodes: 0, price_cap: -1 } });
    expect(reply.json.errors.map((error: { field: string }) => error.field).sort()).toEqual([
      "label",
      "spec.entrypoint",
      "spec.nodes",
      "spec.price_cap",
    ]);
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`${"x".repeat(30)}${i}`, 1]));
    const flood = await post(server.port, "/jobs", { spec: { entrypoint: "a.py", ...many } });
    expect([flood.status, flood.json.errors.length, flood.text.length < 20_000]).toEqual([400, 50, true]);
  });
});
