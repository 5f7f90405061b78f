// Checks whether a folder holds a model that can be trained on, and finds what is missing.

import { open, readdir, readFile, realpath, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { boundedJson } from "../domain/bounded-json.ts";
import { SvcError } from "../errors/index.ts";
import type { HubAdopted } from "../schemas/hub.ts";
import { BOOKS } from "./folder-place.ts";

const LFS_POINTER = "version https://git-lfs.github.com/spec/v1";
const SAFETENSORS_HEADER_MAX = 100_000_000;
const JSON_BYTES_MAX = 64 * 1024 * 1024;
const ENTRIES_MAX = 200_000;
const NAMED_MAX = 5;

const TOKENIZERS = ["tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"];

/** Throws `hub_model_unusable`, which names everything that is missing. */
export async function checkModel(path: string): Promise<HubAdopted> {
  try {
    return await check(path);
  } catch (e) {
    const { code, path: at } = e as NodeJS.ErrnoException;
    if (e instanceof SvcError || code === undefined) throw e;
    throw new SvcError(
      "hub_model_unusable",
      { path, missing: [`${at ?? "a part"} cannot be read (${code})`] },
      { cause: e },
    );
  }
}

async function check(path: string): Promise<HubAdopted> {
  const folder = await realpath(path).catch(() => null);
  if (folder === null) throw unusable(path, [await absent(path)]);
  if ((await stat(folder)).isFile()) return checkGguf(folder);
  const nearby = await snapshotNear(folder);
  if (nearby !== null) throw unusable(path, [`it is a repository of a cache; its model is in ${nearby}`]);
  const model = new ModelFolder(folder);
  await model.read();
  return model.verdict(path);
}

async function absent(path: string): Promise<string> {
  return (await stat(dirname(path)).catch(() => null)) === null
    ? "there is no such folder"
    : "it does not exist, or is a broken symlink";
}

/** The snapshot in a cache's model folder, for a user who named the folder instead of the snapshot. */
async function snapshotNear(folder: string): Promise<string | null> {
  if (!basename(folder).startsWith("models--")) return null;
  const commit = await readFile(join(folder, "refs", "main"), "utf8").catch(() => "");
  const names = await readdir(join(folder, "snapshots")).catch((): string[] => []);
  const chosen = names.includes(commit.trim()) ? commit.trim() : names[0];
  return chosen === undefined ? null : join(folder, "snapshots", chosen);
}

async function checkGguf(file: string): Promise<HubAdopted> {
  const size = (await stat(file)).size;
  if ((await firstBytes(file, 4)).toString("latin1") !== "GGUF")
    throw unusable(file, ["it is a file, and only a GGUF file is a model by itself"]);
  return { path: file, kind: "gguf", files: 1, bytes: size, warnings: [] };
}

class ModelFolder {
  readonly #folder: string;
  readonly #sizes = new Map<string, number>();
  readonly #missing: string[] = [];
  readonly #warnings: string[] = [];

  constructor(folder: string) {
    this.#folder = folder;
  }

  async read(): Promise<void> {
    const dangling: string[] = [];
    for (const path of await this.#walk("")) {
      const found = await stat(join(this.#folder, path)).catch(() => null);
      if (found === null) dangling.push(path);
      else if (found.isFile()) this.#sizes.set(path, found.size);
    }
    if (dangling.length > 0)
      this.#missing.push(`${named(dangling)} ${dangling.length === 1 ? "is a broken symlink" : "are broken symlinks"}`);
    const unfinished = [...this.#sizes.keys()].filter((path) => path.endsWith(".incomplete"));
    if (unfinished.length > 0) this.#missing.push(`${named(unfinished)} did not come whole`);
  }

  async #walk(below: string): Promise<string[]> {
    const found: string[] = [];
    for (const entry of await readdir(join(this.#folder, below), { withFileTypes: true })) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (path === BOOKS.replaceAll("\\", "/") || path === ".git") continue;
      for (const each of entry.isDirectory() ? await this.#walk(path) : [path]) found.push(each);
      if (found.length > ENTRIES_MAX) throw unusable(this.#folder, [`it holds more than ${ENTRIES_MAX} files`]);
    }
    return found;
  }

  async verdict(asked: string): Promise<HubAdopted> {
    const kind = await this.#kind();
    if (this.#missing.length > 0 || kind === null)
      throw unusable(asked, this.#missing.length > 0 ? this.#missing : ["it holds no model"]);
    return {
      path: this.#folder,
      kind,
      files: this.#sizes.size,
      bytes: [...this.#sizes.values()].reduce((a, b) => a + b, 0),
      warnings: this.#warnings,
    };
  }

  async #kind(): Promise<HubAdopted["kind"] | null> {
    if (this.#has("adapter_config.json")) return this.#adapter();
    if (this.#has("model_index.json")) return this.#diffusers();
    if (this.#has("config.json")) {
      await this.#transformers();
      return this.#has("modules.json") ? "sentence-transformers" : "transformers";
    }
    if (this.#has("modules.json")) return "sentence-transformers";
    const gguf = [...this.#sizes.keys()].filter((path) => /^[^/]+\.gguf$/.test(path));
    if (gguf.length > 0) {
      for (const path of gguf) await this.#weights(path);
      return "gguf";
    }
    this.#missing.push("config.json (or adapter_config.json, model_index.json, a .gguf file) is missing");
    if (!this.#anyWeights())
      this.#missing.push("weights (model.safetensors, pytorch_model.bin, or their index) are missing");
    return null;
  }

  async #transformers(): Promise<void> {
    const config = await this.#json("config.json");
    if (config && config["model_type"] === undefined && config["architectures"] === undefined)
      this.#warnings.push("config.json names neither model_type nor architectures");
    await this.#weightsOf(["model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"]);
    if (!TOKENIZERS.some((name) => this.#has(name))) this.#warnings.push("the tokenizer is missing");
  }

  async #adapter(): Promise<"adapter"> {
    const config = await this.#json("adapter_config.json");
    if (config && typeof config["base_model_name_or_path"] !== "string")
      this.#missing.push("adapter_config.json does not name its base model");
    await this.#weightsOf(["adapter_model.safetensors", "adapter_model.bin"]);
    return "adapter";
  }

  async #diffusers(): Promise<"diffusers"> {
    const index = await this.#json("model_index.json");
    for (const [part, value] of Object.entries(index ?? {}))
      if (!part.startsWith("_") && Array.isArray(value) && value[0] !== null)
        if (![...this.#sizes.keys()].some((path) => path.startsWith(`${part}/`)))
          this.#missing.push(`the folder ${part}, which model_index.json names, is missing`);
    for (const path of this.#sizes.keys()) if (/\.(safetensors|bin)$/.test(path)) await this.#weights(path);
    return "diffusers";
  }

  /** The first form of the weights that exists, in one file or in parts. */
  async #weightsOf(names: readonly string[]): Promise<void> {
    for (const name of names) {
      if (this.#has(name)) return this.#weights(name);
      if (this.#has(`${name}.index.json`)) return this.#shards(`${name}.index.json`);
    }
    this.#missing.push(`weights are missing (${names.slice(0, 2).join(" or ")}, or the index of their parts)`);
  }

  async #shards(index: string): Promise<void> {
    const map = (await this.#json(index))?.["weight_map"];
    if (typeof map !== "object" || map === null) return void this.#missing.push(`${index} has no weight_map`);
    const names = [...new Set(Object.values(map as Record<string, unknown>).map(String))];
    const absent = names.filter((name) => !this.#has(name));
    if (names.length === 0) this.#missing.push(`${index} names no parts`);
    if (absent.length > 0)
      this.#missing.push(`of ${names.length} parts of the weights ${absent.length} are missing: ${named(absent)}`);
    for (const name of names) if (this.#has(name)) await this.#weights(name);
  }

  async #weights(path: string): Promise<void> {
    const size = this.#sizes.get(path) ?? 0;
    const file = join(this.#folder, path);
    if (size === 0) return void this.#missing.push(`${path} is empty`);
    const begin = await firstBytes(file, LFS_POINTER.length);
    if (begin.toString("latin1") === LFS_POINTER)
      return void this.#missing.push(
        `${path} is a pointer of git-lfs, not the file itself (\`git lfs pull\` fetches it)`,
      );
    if (path.endsWith(".safetensors")) {
      const why = await safetensorsObjection(file, size);
      if (why !== null) this.#missing.push(`${path} ${why}`);
    }
    if (path.endsWith(".gguf") && begin.subarray(0, 4).toString("latin1") !== "GGUF")
      this.#missing.push(`${path} is not a GGUF file`);
  }

  async #json(path: string): Promise<Record<string, unknown> | null> {
    if ((this.#sizes.get(path) ?? 0) > JSON_BYTES_MAX) return (void this.#missing.push(`${path} is too large`), null);
    const value = boundedJson(await readFile(join(this.#folder, path), "utf8").catch(() => ""));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    this.#missing.push(`${path} is not a JSON object, or has too many values`);
    return null;
  }

  #anyWeights(): boolean {
    return [...this.#sizes.keys()].some((path) => /\.(safetensors|bin|gguf|h5|msgpack)(\.index\.json)?$/.test(path));
  }
  #has(path: string): boolean {
    return this.#sizes.has(path);
  }
}

/** The header says how long the file must be. */
async function safetensorsObjection(file: string, size: number): Promise<string | null> {
  const head = await firstBytes(file, 8);
  const length = head.length === 8 ? Number(head.readBigUInt64LE()) : Number.NaN;
  if (!(length >= 2 && length <= SAFETENSORS_HEADER_MAX && 8 + length <= size))
    return "is not a safetensors file, or is truncated";
  try {
    const header = boundedJson((await firstBytes(file, 8 + length)).toString("utf8", 8)) as Record<
      string,
      { data_offsets?: [number, number] }
    >;
    const ends = Object.entries(header).flatMap(([name, tensor]) =>
      name === "__metadata__" ? [] : [tensor.data_offsets?.[1] ?? Number.NaN],
    );
    const whole = 8 + length + Math.max(0, ...ends);
    return whole === size ? null : `is ${size} bytes long, but its header says ${whole}`;
  } catch {
    return "has a header that cannot be read";
  }
}

async function firstBytes(file: string, count: number): Promise<Buffer> {
  const handle = await open(file, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(count), 0, count, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

const named = (paths: readonly string[]): string =>
  paths.slice(0, NAMED_MAX).join(", ") + (paths.length > NAMED_MAX ? ` and ${paths.length - NAMED_MAX} more` : "");
const unusable = (path: string, missing: string[]): SvcError => new SvcError("hub_model_unusable", { path, missing });
