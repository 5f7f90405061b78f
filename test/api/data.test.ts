import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { serve } from "./double.ts";
import { ask, post as send } from "./wire.ts";

it("data is added, listed, read page by page, verified and removed", async () => {
  const { server } = await serve();
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "svc-set-")));
  for (let i = 0; i < 5; i++) writeFileSync(join(folder, `f${i}`), String(i));
  const get = async (path: string) => (await ask({ port: server.port, path })).json;
  const post = async (path: string, body: unknown) => send(server.port, path, body);
  expect(await get("/v1/data")).toEqual({ data: [], damaged: [] });
  expect((await post("/v1/data", { name: "set", paths: ["relative"] })).json).toMatchObject({
    code: "invalid_request",
    errors: [{ field: "paths[0]" }],
  });
  const added = await post("/v1/data", { name: "set", paths: [folder] });
  expect([added.status, added.json]).toMatchObject([
    201,
    { data: { name: "set", files: 5, bytes: 5 }, unchanged: null },
  ]);
  expect(await get("/v1/data")).toMatchObject({ data: [{ name: "set", files: 5 }] });
  const first = (await get("/v1/data/set?limit=3")) as { files: { path: string }[]; next_cursor: string };
  const second = (await get(`/v1/data/set?limit=3&cursor=${first.next_cursor}`)) as typeof first;
  expect([...first.files, ...second.files].map((f) => f.path)).toEqual(["f0", "f1", "f2", "f3", "f4"]);
  expect(second.next_cursor).toBeNull();
  writeFileSync(join(folder, "f1"), "one");
  expect((await post("/v1/data/set/verify", {})).json).toMatchObject({
    ok: false,
    changed: [{ path: "f1" }],
    missing: [],
  });
  expect(await get("/v1/data/other")).toMatchObject({ code: "data_not_found" });
  expect(await get("/v1/data/..%2fcredentials")).toMatchObject({ code: "data_not_found" });
  expect((await ask({ port: server.port, path: "/v1/data/set", method: "DELETE" })).json).toEqual({ removed: "set" });
  expect(await get("/v1/data")).toEqual({ data: [], damaged: [] });
  rmSync(folder, { recursive: true });
});
