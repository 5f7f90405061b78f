// Models as a user's script pulls them: both SDKs, with their own control plane, with a running one, and with one that
// is killed.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { HubPull } from "../../src/schemas/hub.ts";
import { HubDouble, largeContent } from "../hub/double.ts";
import { gathered } from "../gathered.ts";
import { Place, ROOT, until } from "../process/harness.ts";
import { SDKS } from "../program.ts";

let place: Place;
let hub: HubDouble;
beforeEach(async () => {
  place = Place.own("it is killed or started again");
  hub = await new HubDouble().listen();
  Object.assign(place.env, { SVC_HUB_URL: hub.url });
  hub.commit("ann/tiny", { "config.json": '{"model_type":"bert"}', "pytorch_model.bin": "weights", "vocab.txt": "a" });
  hub.repo("ann/gated").gated = true;
  hub.commit("ann/gated", { "model.bin": "weights" });
});
afterEach(async () => {
  await until(() => !existsSync(join(place.home, "control-plane.json")) || place.processes().length === 0, "all ended");
  await place.close();
  await hub.close();
});

async function script(argv: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const [program = "", ...args] = argv;
  const env = { ...place.env, ...SDKS };
  const child = spawn(program, args, { cwd: place.project, env, stdio: ["ignore", "pipe", "pipe"] });
  const { out, err, exited } = gathered(child);
  return { code: await exited, out: out(), err: err() };
}

test("a Python script pulls, adopts, lists and removes models, and learns what a model lacks", async () => {
  const { code, out, err } = await script([
    "python3",
    "-c",
    [
      "import asyncio, svc",
      'print(svc.hub.pull("ann/tiny"))',
      'print(svc.hub.pull("ann/tiny", local_dir="here", allow_patterns="*.json"))',
      'print(asyncio.run(svc.aio.hub.pull("ann/tiny", revision="main")))',
      'print(svc.hub.from_local(svc.hub.pull("ann/tiny")))',
      "print([(m.model_id, m.source, m.files) for m in svc.hub.models()])",
      'print(len(svc.hub.remove("ann/tiny")))',
      "try:",
      '    svc.hub.from_local("here")',
      "except svc.SvcError as e:",
      "    print(e.code, 'weights' in e.message)",
      "try:",
      '    svc.hub.pull("ann/gated")',
      "except svc.CredentialError as e:",
      "    print(e.code, bool(e.hint))",
    ].join("\n"),
  ]);
  const model = join(place.home, "models/ann/tiny");
  expect(out.split("\n"), err).toEqual([
    model,
    join(place.project, "here"),
    model,
    model,
    // This one is adopted as well; it is a single folder.
    "[('ann/tiny', 'folder', 3), ('ann/tiny', 'folder', 1)]",
    "1",
    "hub_model_unusable True",
    "hub_gated True",
    "",
  ]);
  expect(code).toBe(0);
});

test("a TypeScript script does the same", async () => {
  const body = `
    import { hub } from ${JSON.stringify(join(ROOT, "sdk/index.ts"))};
    console.log(await hub.pull("ann/tiny", { local_dir: "here", revision: "main" }));
    console.log(await hub.fromLocal("here"));
    console.log((await hub.models()).map((m) => m.model_id).join());
    console.log(await hub.pull("ann/absent").catch((e) => e.code + " " + e.status));
    console.log(await hub.remove("ann/tiny").catch((e) => e.code));`;
  const { code, out, err } = await script([process.execPath, "--input-type=module", "-e", body]);
  const here = join(place.project, "here");
  expect(out.split("\n"), err).toEqual([here, here, "ann/tiny", "hub_model_not_found 0", "hub_model_not_here", ""]);
  expect(code).toBe(0);
});

test("kill -9 in the middle of a pull: the next control plane resumes it, with the downloaded bytes", async () => {
  const large = largeContent(12 * 1024 * 1024 + 5);
  const commit = hub.commit("ann/large", { "model.bin": large });
  hub.faults.stall = 1;
  // svc writes and reports batches of 4 MiB, so at most that much is missing from its report.
  hub.faults.stallAt = 11.5 * 1024 * 1024;
  const first = await place.serve();
  const { pull } = (await first.post("/v1/hub/pull", { model_id: "ann/large" })).body as { pull: HubPull };
  const at = async (): Promise<HubPull> => (await first.get<{ pull: HubPull }>(`/v1/hub/pulls/${pull.id}`)).pull;
  await until(async () => (await at()).bytes_done >= 7 * 1024 * 1024, "most of it came");
  await first.kill();
  expect(existsSync(join(place.home, "models/ann/large"))).toBe(false);
  hub.asked.length = 0;
  hub.commit("ann/large", { "model.bin": "another version" });

  const second = await place.serve();
  const after = async (): Promise<HubPull> => (await second.get<{ pull: HubPull }>(`/v1/hub/pulls/${pull.id}`)).pull;
  await until(async () => (await after()).status !== "running", "the pull ends");
  expect(await after()).toMatchObject({ status: "succeeded", commit, path: join(place.home, "models/ann/large") });
  const file = join(place.home, "models/ann/large/model.bin");
  expect(readFileSync(file).equals(large.slice(0, large.size))).toBe(true);
  expect(statSync(file).mode & 0o077).toBe(0);
  const [asked] = hub.filesAsked("cdn");
  expect(Number(/^bytes=(\d+)-$/.exec(asked?.range ?? "")?.[1])).toBeGreaterThanOrEqual(7 * 1024 * 1024);
});

test("the store's cache directory and token are used, and a restart keeps pulled models", async () => {
  Object.assign(hub.repo("ann/secret"), { private: true, admitted: new Set([HubDouble.tokens.alice]) });
  const commit = hub.commit("ann/secret", { "config.json": "{}" });
  const first = await place.serve();
  const cache = join(place.root, "cache");
  const block = { hub: { token: HubDouble.tokens.alice, cache_dir: cache } };
  writeFileSync(join(place.home, "credentials.json"), JSON.stringify(block), { mode: 0o600 });
  const pulled = await first.post("/v1/hub/pull?wait=true", { model_id: "ann/secret" });
  const path = join(cache, "hub/models--ann--secret/snapshots", commit);
  expect(pulled).toMatchObject({ status: 200, body: { path, revision: commit, files: 1, bytes: 2 } });
  first.signal("SIGTERM");
  await first.exited;
  const second = await place.serve();
  expect(await second.get("/v1/hub/models")).toMatchObject({ models: [{ model_id: "ann/secret", path }] });
  const { pulls } = await second.get<{ pulls: HubPull[] }>("/v1/hub/pulls");
  expect(pulls.map((p) => p.status)).toEqual(["succeeded"]);
});
