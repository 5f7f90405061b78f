import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import WebSocket from "ws";
import { requireExtra } from "../../src/domain/extras.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { Pulling } from "../hub/pulling.ts";
import { serve } from "./double.ts";
import { ask, post, type Reply } from "./wire.ts";

let pulling: Pulling;
let port: number;
beforeEach(async () => {
  const { plane, server } = await serve();
  port = server.port;
  pulling = await new Pulling().open({
    hint: (pull) => {
      for (const listener of plane.listeners) listener({ type: "pull.progress", job_id: null, pull });
    },
  });
  plane.hub = pulling.pulls;
  pulling.hub.commit("ann/tiny", { "config.json": '{"model_type":"bert"}', "model.safetensors": "weights" });
});
afterEach(() => pulling.close());

const get = (path: string): Promise<Reply> => ask({ port, path });
const pull = (body: object, query = ""): Promise<Reply> => post(port, `/v1/hub/pull${query}`, body);

describe("POST /v1/hub/pull", () => {
  it("answers at once, and with wait when the model is complete", async () => {
    const started = await pull({ model_id: "ann/tiny" });
    expect(started.status).toBe(202);
    expect(started.json.pull).toMatchObject({ model_id: "ann/tiny", revision: "main" });
    expect(started.headers.location).toBe(`/v1/hub/pulls/${started.json.pull.id}`);
    const done = await pull({ model_id: "ann/tiny" }, "?wait=true");
    expect(done.status).toBe(200);
    expect(done.json).toMatchObject({ path: join(pulling.home, "models/ann/tiny"), files: 2 });
    expect(done.json.revision).toMatch(/^[0-9a-f]{40}$/);
    const later = await get(`/v1/hub/pulls/${started.json.pull.id}`);
    expect(later.json.pull).toMatchObject({ status: "succeeded", files_done: 2, error: null });
    expect((await get("/v1/hub/pulls")).json.pulls.length).toBeGreaterThan(0);
  });

  it("quotes the hub's refusal in a problem that names the remedy", async () => {
    const absent = await pull({ model_id: "ann/absent" }, "?wait=true");
    expect(absent.status).toBe(404);
    expect(absent.json).toMatchObject({ code: "hub_model_not_found", hint: expect.stringContaining("HUB_TOKEN") });
    pulling.hub.repo("ann/tiny").gated = true;
    expect(await pull({ model_id: "ann/tiny" }, "?wait=true")).toMatchObject({
      status: 403,
      json: { code: "hub_gated" },
    });
  });

  it("names the invalid field", async () => {
    for (const [body, field] of [
      [{}, "model_id"],
      [{ model_id: "../x" }, "model_id"],
      [{ model_id: "a/b", revision: "../x" }, "revision"],
      [{ model_id: "a/b", allow_patterns: 5 }, "allow_patterns"],
      [{ model_id: "a/b", colour: 1 }, "colour"],
    ] as const) {
      const { status, json } = await pull(body);
      expect([status, json.code, json.errors?.[0]?.field], JSON.stringify(body)).toEqual([
        400,
        "invalid_request",
        field,
      ]);
    }
  });

  it("says what to install if the extra is missing", async () => {
    const { plane, server } = await serve();
    plane.hub = pulling.again({ requireExtra: () => requireExtra("hub", { SVC_EXTRAS: "tracker" }) });
    const { status, json } = await post(server.port, "/v1/hub/pull", { model_id: "ann/tiny" });
    expect(status).toBe(501);
    expect(json).toMatchObject({ code: "extra_missing", hint: expect.stringContaining("svc[hub]") });
  });
});

describe("a pull that runs", () => {
  it("appears on the feed and can be cancelled", async () => {
    const heard: { type: string; pull?: { model_id: string } }[] = [];
    const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/events`);
    socket.on("message", (data: Buffer) => heard.push(JSON.parse(data.toString("utf8"))));
    await once(socket, "open");
    let go!: () => void;
    pulling.hub.hold = new Promise((resolve) => (go = resolve));
    const { id } = (await pull({ model_id: "ann/tiny" })).json.pull;
    await expect
      .poll(() => heard.find((m) => m.type === "pull.progress")?.pull?.model_id, { timeout: DEADLINE_MS })
      .toBe("ann/tiny");
    const cancelled = await post(port, `/v1/hub/pulls/${id}/cancel`, {});
    expect(cancelled.json.pull).toMatchObject({ status: "cancelled", phase: null });
    go();
    socket.close();
    expect((await get("/v1/hub/pulls/none")).status).toBe(404);
  });
});

describe("models", () => {
  it("are listed, adopted from the disk, and removed by their id", async () => {
    await pull({ model_id: "ann/tiny" }, "?wait=1");
    expect((await get("/v1/hub/models")).json.models).toMatchObject([{ model_id: "ann/tiny", source: "folder" }]);
    const own = join(pulling.home, "own.gguf");
    writeFileSync(own, "GGUF");
    expect((await post(port, "/v1/hub/models", { path: own })).json).toMatchObject({
      kind: "gguf",
      path: own,
    });
    const bad = await post(port, "/v1/hub/models", { path: join(pulling.home, "hub") });
    expect([bad.status, bad.json.code]).toEqual([400, "hub_model_unusable"]);
    expect((await get("/v1/hub/models")).json.models).toHaveLength(2);
    const remove = (path: string): Promise<Reply> => ask({ port, path: `/v1/hub/models/${path}`, method: "DELETE" });
    expect((await remove("..%2f..%2fetc")).status).toBe(400);
    expect((await remove("ann/tiny")).json.removed).toEqual([join(pulling.home, "models/ann/tiny")]);
    expect(existsSync(join(pulling.home, "models/ann/tiny"))).toBe(false);
    expect((await remove("ann/tiny")).json.code).toBe("hub_model_not_here");
  });
});
