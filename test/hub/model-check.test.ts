import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SvcError } from "../../src/errors/index.ts";
import { checkModel } from "../../src/hub/model-check.ts";

let folder: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "svc-model-")));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function put(files: Record<string, string | Buffer>): string {
  for (const [name, of] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), of);
  }
  return folder;
}
function safetensors(bytes = 16): Buffer {
  const header = Buffer.from(
    JSON.stringify({ __metadata__: { format: "pt" }, w: { dtype: "F32", shape: [4], data_offsets: [0, 16] } }),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, Buffer.alloc(bytes)]);
}
const missing = async (path: string): Promise<string> => {
  const error = await checkModel(path).then(
    () => expect.unreachable("it was taken for a model"),
    (e: unknown) => e as SvcError<"hub_model_unusable">,
  );
  expect(error.code).toBe("hub_model_unusable");
  return error.message;
};
const CONFIG = { "config.json": '{"model_type":"bert"}' };

describe("a folder is a model", () => {
  it("with a configuration and complete weights", async () => {
    put({ ...CONFIG, "model.safetensors": safetensors(), "tokenizer.json": "{}" });
    expect(await checkModel(folder)).toMatchObject({ path: folder, kind: "transformers", files: 3, warnings: [] });
  });
  it("with complete weights in parts", async () => {
    const index = JSON.stringify({ weight_map: { a: "p1.safetensors", b: "p2.safetensors" } });
    put({
      ...CONFIG,
      "model.safetensors.index.json": index,
      "p1.safetensors": safetensors(),
      "p2.safetensors": safetensors(),
    });
    expect(await checkModel(folder)).toMatchObject({ kind: "transformers", warnings: ["the tokenizer is missing"] });
  });
  it("with an adapter, a pipeline, or a GGUF file, which may also be alone", async () => {
    put({ "a/adapter_config.json": '{"base_model_name_or_path":"x"}', "a/adapter_model.safetensors": safetensors() });
    expect((await checkModel(join(folder, "a"))).kind).toBe("adapter");
    put({
      "d/model_index.json": '{"_class_name":"P","unet":["diffusers","U"]}',
      "d/unet/m.safetensors": safetensors(),
    });
    expect((await checkModel(join(folder, "d"))).kind).toBe("diffusers");
    put({ "g/m.gguf": "GGUF and so on" });
    expect((await checkModel(join(folder, "g"))).kind).toBe("gguf");
    expect((await checkModel(join(folder, "g/m.gguf"))).kind).toBe("gguf");
  });
  it("through a symlink, whose target is returned", async () => {
    put({ "real/config.json": '{"model_type":"bert"}', "real/model.safetensors": safetensors() });
    symlinkSync(join(folder, "real"), join(folder, "link"));
    expect((await checkModel(join(folder, "link"))).path).toBe(join(folder, "real"));
  });
});

describe("missing parts are named", () => {
  it("everything at once", async () => {
    put({ "README.md": "x" });
    expect(await missing(folder)).toMatch(/config\.json .*is missing; weights .*are missing/);
    expect(await missing(join(folder, "nowhere"))).toContain("does not exist");
  });
  it("parts of the weights", async () => {
    const index = JSON.stringify({ weight_map: { a: "p1.safetensors", b: "p2.safetensors", c: "p3.safetensors" } });
    put({ ...CONFIG, "model.safetensors.index.json": index, "p1.safetensors": safetensors() });
    expect(await missing(folder)).toContain("of 3 parts of the weights 2 are missing: p2.safetensors, p3.safetensors");
  });
  it("weights that are pointers, empty, truncated, or broken symlinks", async () => {
    put({ ...CONFIG, "model.safetensors": "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n" });
    expect(await missing(folder)).toContain("git lfs pull");
    put({ "model.safetensors": "" });
    expect(await missing(folder)).toContain("model.safetensors is empty");
    put({ "model.safetensors": safetensors(9) });
    expect(await missing(folder)).toContain("but its header says");
    rmSync(join(folder, "model.safetensors"));
    symlinkSync("../../blobs/abc", join(folder, "model.safetensors"));
    expect(await missing(folder)).toContain("broken symlink");
  });
  it("the snapshot, if the cache's folder around it was given", async () => {
    const commit = "a".repeat(40);
    put({ "models--a--b/refs/main": commit, [`models--a--b/snapshots/${commit}/config.json`]: "{}" });
    expect(await missing(join(folder, "models--a--b"))).toContain(join("snapshots", commit));
  });
  it("an unreadable file", async () => {
    execFileSync("mkfifo", [join(folder, "pipe")]);
    expect(await missing(join(folder, "pipe"))).toContain("pipe cannot be read (ENOTDIR)");
  });
  it("a configuration that is not JSON", async () => {
    put({ "config.json": "{", "model.safetensors": safetensors() });
    expect(await missing(folder)).toContain("config.json is not a JSON object");
  });
});
