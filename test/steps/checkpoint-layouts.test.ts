// The files of each framework, and which of them are a complete checkpoint: one table, for `resume_from` here and for
// `svc.latest_checkpoint` on the machine, which must never disagree. Layouts are those that the frameworks document.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { fetchFile, listFiles } from "../../src/providers/local/checkpoint-files.ts";
import { CheckpointCollector } from "../../src/steps/checkpoints/collector.ts";
import { lastComplete } from "../../src/steps/checkpoints/resume.ts";

const Layout = z.object({
  framework: z.string(),
  files: z.record(z.string(), z.string()),
  complete: z.string().nullable(),
});
const Answer = z.tuple([z.string(), z.string().nullable()]);
const layouts = z
  .array(Layout)
  .parse(JSON.parse(readFileSync(join(import.meta.dirname, "checkpoint-layouts.json"), "utf8")));
const top = mkdtempSync(join(tmpdir(), "svc-layouts-"));
afterAll(() => rmSync(top, { recursive: true, force: true }));

const { signal } = new AbortController();
const zip = Buffer.concat([Buffer.from("PK\u0003\u0004weights"), Buffer.from(`PK\u0005\u0006${"\0".repeat(18)}`)]);
const header = Buffer.from('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}');
const length = Buffer.alloc(8);
length.writeBigUInt64LE(BigInt(header.length));
/** As h5py writes it: the superblock of version 0 or 3, and an end that is `end`. */
function hdf5(version: 0 | 3, end: number): Buffer {
  const file = Buffer.alloc(96);
  file.write("\u0089HDF\r\n\u001a\n", 0, "latin1");
  file[8] = version;
  file[version === 0 ? 13 : 9] = 8;
  file.writeBigUInt64LE(BigInt(end), version === 0 ? 40 : 28);
  return file;
}
const CONTENTS: Record<string, Buffer> = {
  "<zip>": zip,
  "<cut zip>": zip.subarray(0, 9),
  "<hdf5>": hdf5(0, 96),
  "<hdf5 v3>": hdf5(3, 96),
  "<cut hdf5>": hdf5(0, 97),
  "<safetensors>": Buffer.concat([length, header, Buffer.from("wwww")]),
};

const sourceOf = (framework: string): string => join(top, framework.replaceAll(/[^a-z]/gi, "-"));

function write(folder: string, files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), CONTENTS[text] ?? text);
  }
}

/** A process for each layout, made by fork: to start Python 37 times takes longer than all the rest. */
const PROGRAM = `import json, os, sys, svc
svc.latest_checkpoint  # loads the module before the first fork
for folder in json.load(sys.stdin):
    if os.fork() == 0:
        os.environ["SVC_CHECKPOINT_DIR"] = folder
        print(json.dumps([folder, svc.latest_checkpoint()]), flush=True)
        os._exit(0)
    if os.wait()[1] != 0:
        sys.exit("no answer for " + folder)
`;

/** The newest complete checkpoint in each folder, as the library on the machine finds it. */
let onMachine: Record<string, string | null> = {};
beforeAll(() => {
  for (const { framework, files } of layouts) write(sourceOf(framework), files);
  const folders = layouts.map(({ framework }) => sourceOf(framework));
  const env = { ...process.env, PYTHONPATH: join(import.meta.dirname, "../../python") };
  const python = spawnSync("python3", ["-c", PROGRAM], { env, input: JSON.stringify(folders), encoding: "utf8" });
  expect([python.stderr, python.status]).toEqual(["", 0]);
  onMachine = Object.fromEntries(
    python.stdout
      .trimEnd()
      .split("\n")
      .map((line) => Answer.parse(JSON.parse(line))),
  );
});

test.each(layouts)(
  "The complete checkpoints of $framework are the same on this computer and on the machine",
  async ({ framework, complete }) => {
    const source = sourceOf(framework);
    const targetDir = join(top, "homes", framework.replaceAll(/[^a-z]/gi, "-"));
    const host = {
      listCheckpoints: () => listFiles(source, signal),
      fetchCheckpoint: (file: Parameters<typeof fetchFile>[1], target: string) => fetchFile(source, file, target),
    };
    await new CheckpointCollector({ targetDir, now: () => 0 }).scan(host, {
      final: true,
      announced: new Set(),
      signal,
    });
    const found = await lastComplete({ job: "a", checkpoints: targetDir, announced: new Set(), nodes: 1 });
    expect(found?.name ?? null).toBe(complete);
    expect(onMachine[source]).toBe(complete === null ? null : join(source, complete));
  },
);
