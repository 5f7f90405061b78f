// Lists that are written out where the one in src/schemas cannot be imported, for their language or their weight, held to it.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ACTIVE_STATES, OUTCOMES, STEPS } from "../dashboard/src/status.ts";
import { COMMANDS } from "../src/cli/commands/index.ts";
import { GPU_CATALOGUE } from "../src/domain/gpus.ts";
import { STEP_NAMES, ACTIVE_STATES as STATES, OUTCOMES as ENDS } from "../src/schemas/job.ts";
import { PROVIDER_NAMES, REMOTE_NAMES } from "../src/schemas/provider-names.ts";

const read = (path: string): string => readFileSync(join(import.meta.dirname, "..", path), "utf8");
/** The quoted words of what the first group of a pattern finds in a file. */
const words = (path: string, pattern: RegExp): string[] => {
  const found = pattern.exec(read(path))?.[1];
  expect(found, `${path} has no such list any more: mend the pattern of this test`).toBeDefined();
  return [...(found ?? "").matchAll(/"([a-z_0-9]+)"/g)].map(([, word = ""]) => word);
};

describe("providers, as src/schemas/provider-names.ts has them, are also", () => {
  test("the type of the Python client", () => {
    expect(words("python/svc/_client.py", /^ProviderName = Literal\[(.*?)\]/ms)).toEqual([...PROVIDER_NAMES]);
  });
  test("those of Python's catalogue, which is the catalogue", () => {
    expect(words("python/svc/_gpus.py", /^PROVIDERS = \((.*?)\)/ms)).toEqual([...PROVIDER_NAMES]);
    const table = /^_TABLE = """\n(.*?)\n"""/ms.exec(read("python/svc/_gpus.py"))?.[1] ?? "";
    expect(table.split("\n").map((row) => row.trim().split(/\s+/))).toEqual(
      GPU_CATALOGUE.map(({ model, vram_gb, providers }) => [model, String(vram_gb), ...providers]),
    );
  });
  test("extras of the wheel", () => {
    const extras = words("python/svc/_extras.py", /^EXTRAS[^\n]*= \{(.*?)^\}/ms);
    expect(REMOTE_NAMES.filter((name) => !extras.includes(name))).toEqual([]);
  });
  test.each(["README.md", "docs/PROVIDERS.md"])("rows of %s", (page) => {
    const text = read(page);
    expect(PROVIDER_NAMES.filter((name) => !new RegExp(`^\\| \\[?\`${name}\``, "m").test(text))).toEqual([]);
  });
});

test("steps and states of the dashboard are those of src/schemas/job.ts", () => {
  expect(STEPS).toEqual(STEP_NAMES);
  expect(ACTIVE_STATES).toEqual(STATES);
  expect(OUTCOMES).toEqual(ENDS);
});

test("every command of the CLI has its row in docs/CLI.md", () => {
  const text = read("docs/CLI.md");
  expect(COMMANDS.map(({ name }) => name).filter((name) => !text.includes(`| \`svc ${name}`))).toEqual([]);
});
