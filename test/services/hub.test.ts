// Our pulls against the hub's own Python library: both write the same cache, and each resumes the other's downloads.

import { spawn } from "node:child_process";
import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, realpathSync, rmSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { HubDouble } from "../hub/double.ts";
import { Pulling } from "../hub/pulling.ts";
import { gathered } from "../gathered.ts";
import { environment } from "./python-server.ts";

const FILES = {
  "config.json": '{"model_type":"bert"}\n',
  "model.safetensors": randomBytes(300_000),
  "sub/deep/tokenizer.json": "{}",
  "README.md": "# A model\n",
  "empty.txt": "",
};

let python: string;
let p: Pulling;
let folder: string;
let commit: string;
beforeAll(() => {
  python = join(environment(["huggingface_hub==2.4.0"]), "bin/python");
});
beforeEach(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "svc-hub-library-")));
  p = await new Pulling().open();
  // The library would use other servers for files that Xet stores.
  p.hub.xet = false;
  commit = p.hub.commit("ann/tiny", FILES);
});
afterEach(async () => {
  await p.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The output of the library's code. */
async function library(code: string, env: Record<string, string> = {}): Promise<string> {
  const child = spawn(python, ["-c", `from huggingface_hub import *\n${code}`], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: folder,
      HF_ENDPOINT: p.hub.url,
      HF_HUB_DISABLE_XET: "1",
      HF_HUB_DISABLE_TELEMETRY: "1",
      HF_HUB_DISABLE_PROGRESS_BARS: "1",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { out, err, exited } = gathered(child);
  expect(await exited, err()).toBe(0);
  return out().trim();
}

/** Every file and link below, with its content. */
function contents(root: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = relative(root, path);
    if (lstatSync(path).isSymbolicLink()) found[name] = `-> ${readlinkSync(path)}`;
    else if (entry.isFile()) found[name] = readFileSync(path, "base64");
  }
  return found;
}

describe("the cache", () => {
  it("equals the library's byte for byte", async () => {
    p.settings.cacheDir = join(folder, "ours");
    await p.pull("ann/tiny");
    await library(`snapshot_download("ann/tiny", cache_dir=${JSON.stringify(join(folder, "theirs"))})`);
    const ours = contents(join(folder, "ours/hub/models--ann--tiny"));
    expect(Object.keys(ours).length).toBeGreaterThan(10);
    expect(ours).toEqual(contents(join(folder, "theirs/models--ann--tiny")));
  });

  it("from us is complete for the library without a network", async () => {
    p.settings.cacheDir = join(folder, "home");
    const { path } = await p.pull("ann/tiny");
    const env = { HF_HOME: join(folder, "home"), HF_HUB_OFFLINE: "1" };
    expect(await library('print(snapshot_download("ann/tiny"))', env)).toBe(path);
    expect(await library('print(hf_hub_download("ann/tiny", "sub/deep/tokenizer.json"))', env)).toBe(
      join(path, "sub/deep/tokenizer.json"),
    );
    expect(
      await library(
        "i = scan_cache_dir()\nprint(len(i.repos), i.warnings, [r.commit_hash for q in i.repos for r in q.revisions])",
        env,
      ),
    ).toBe(`1 [] ['${commit}']`);
  });

  it("from the library is not downloaded again by us, nor ours by it", async () => {
    p.settings.cacheDir = join(folder, "home");
    await library('snapshot_download("ann/tiny", allow_patterns=["*.safetensors", "*.md"])', {
      HF_HOME: join(folder, "home"),
    });
    p.hub.asked.length = 0;
    await p.pull("ann/tiny");
    expect(
      p.hub
        .filesAsked()
        .map((a) => a.path.split(`/${commit}/`)[1] ?? "")
        .sort(),
    ).toEqual(["config.json", "sub/deep/tokenizer.json"]);
    p.hub.asked.length = 0;
    await library('snapshot_download("ann/tiny")', { HF_HOME: join(folder, "home") });
    expect(p.hub.filesAsked()).toEqual([]);
  });
});

describe("a folder of its own", () => {
  it("is known to the library, with and without a network", async () => {
    const { path } = await p.pull("ann/tiny", { local_dir: join(folder, "here") });
    p.hub.asked.length = 0;
    const code = `print(snapshot_download("ann/tiny", local_dir=${JSON.stringify(path)}))`;
    expect(await library(code)).toBe(path);
    expect(p.hub.filesAsked()).toEqual([]);
    expect(await library(code, { HF_HUB_OFFLINE: "1" })).toBe(path);
  });

  it("from the library is completed, not downloaded again", async () => {
    const here = join(folder, "here");
    await library(`snapshot_download("ann/tiny", local_dir=${JSON.stringify(here)}, allow_patterns="*.safetensors")`);
    p.hub.asked.length = 0;
    await p.pull("ann/tiny", { local_dir: here });
    expect(p.hub.filesAsked("cdn")).toEqual([]);
    expect(readFileSync(join(here, "model.safetensors")).equals(FILES["model.safetensors"])).toBe(true);
  });
});

describe("the double", () => {
  it("refuses the same requests as the hub, as the library reads it", async () => {
    Object.assign(p.hub.repo("ann/gated"), { gated: true });
    p.hub.commit("ann/gated", FILES);
    const name = (id: string): Promise<string> =>
      library(
        `try:\n    hf_hub_download("${id}", "config.json")\nexcept Exception as e:\n    print(type(e).__name__)`,
        {
          HF_TOKEN: HubDouble.tokens.bob,
        },
      );
    expect(await name("ann/gated")).toBe("GatedRepoError");
    expect(await name("ann/absent")).toBe("RepositoryNotFoundError");
  });
});
