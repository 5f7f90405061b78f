// Lists that repeat one of src/schemas, because they cannot import it (another language, or too large an import),
// compared with the original.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, expectTypeOf, test } from "vitest";
import type { RunParameters } from "../sdk/run.ts";
import { allCommands } from "../src/cli/commands/index.ts";
import { GPU_CATALOGUE } from "../src/domain/gpus.ts";
import { OUTCOMES, STEP_NAMES } from "../src/schemas/names.ts";
import { CREDENTIAL_FIELDS } from "../src/schemas/credential-blocks.ts";
import { DESCRIPTORS, PROVIDER_NAMES, REMOTE_NAMES } from "../src/providers/descriptors.ts";
import { NotifyTarget } from "../src/schemas/notify.ts";
import { needsSecret, TARGET_FIELDS } from "../src/schemas/notify-names.ts";
import { RunSpec, type RunSpecInput } from "../src/schemas/spec.ts";
import { specDefaults } from "../src/schemas/stored-spec.ts";
import { SIM_NAMES } from "./sim/providers/start.ts";

const COMMANDS = await allCommands();

const read = (path: string): string => readFileSync(join(import.meta.dirname, "..", path), "utf8");
/** The quoted words of what the first group of a pattern finds in a file. */
const words = (path: string, pattern: RegExp): string[] => {
  const found = pattern.exec(read(path))?.[1];
  expect(found, `${path} has no such list any more: mend the pattern of this test`).toBeDefined();
  return [...(found ?? "").matchAll(/"([a-z_0-9]+)"/g)].map(([, word = ""]) => word);
};

describe("providers, as src/providers/descriptors.ts has them, are also", () => {
  test("offering only GPUs of the catalogue", () => {
    const models = new Set(GPU_CATALOGUE.map(({ model }) => model));
    const offered = PROVIDER_NAMES.flatMap((name) => DESCRIPTORS[name].gpus);
    expect(offered.filter((model) => !models.has(model))).toEqual([]);
  });
  test("in files with a generated part, each with its marks", () => {
    const marked = ["README.md", "docs/reference/providers/README.md", "docs/internals/guard.md"];
    const python = ["python/pyproject.toml", "python/svc/_run.py", "python/svc/_config.py"];
    const marks = [...marked, "docs/reference/credentials.md", ...python];
    const pattern = /(?:<!-- |# )generated: ([a-z]+)[^]*?(?:<!-- |# )end: \1/;
    expect(marks.filter((path) => !pattern.test(read(path)))).toEqual([]);
  });
  test("in the lists of rented machines, simulators, contract tests and pages", () => {
    expect([...SIM_NAMES].toSorted()).toEqual(REMOTE_NAMES.toSorted());
    const files = REMOTE_NAMES.flatMap((name) => [
      `test/conformance/${name}.test.ts`,
      `docs/reference/providers/${name}.md`,
    ]);
    expect(files.filter((file) => !existsSync(join(import.meta.dirname, "..", file)))).toEqual([]);
  });
});

test("No credential of the person who runs the tests reaches one: vitest.config.ts drops every variable that may hold it", () => {
  const variables = Object.values(CREDENTIAL_FIELDS).flatMap((fields) => fields.flatMap((field) => field.variables));
  expect(variables.filter((name) => process.env[name] !== undefined)).toEqual([]);
});

describe("the fields of RunSpec, with which a run is started, are also parameters of", () => {
  /** Fields that Python's run() does not take under their own names: say why. */
  const ELSEWHERE: Record<string, string> = { entrypoint: "in `task`", args: "in `task`" };
  const fields = Object.keys(RunSpec.shape).filter((name) => ELSEWHERE[name] === undefined);
  const CALL = ["label", "tags", "idempotency_key"];
  const names = (path: string, block: RegExp, name: RegExp): string[] => {
    const found = block.exec(read(path))?.[1];
    expect(found, `${path} has no such list any more: mend the pattern of this test`).toBeDefined();
    return [...(found ?? "").matchAll(name)].map(([, one = ""]) => one).toSorted();
  };

  test("run() of Python", () => {
    const parameters = names("python/svc/_run.py", /^def run\(\n(.*?)\n\) -> Job:/ms, /^ {4}(\w+): /gm);
    expect(parameters).toEqual([...fields, ...CALL, "task", "wait"].toSorted());
  });
  test("the request that Python's run() makes", () => {
    const sent = names("python/svc/_run.py", /^ {4}spec: (.*?)^ {4}\)\n/ms, /^ {12}"(\w+)": /gm);
    expect(sent).toEqual(fields.toSorted());
  });
  test("run() of svc.aio", () => {
    const parameters = names("python/svc/aio.py", /^class RunParameters\(.*?\):\n(.*?)\n\n\n/ms, /^ {4}(\w+): /gm);
    expect(parameters).toEqual([...fields, ...CALL].toSorted());
  });
  test("the docstring of Python's run()", () => {
    const documented = names("python/svc/_run.py", /^def run\((.*?)^    spec: /ms, /^ {4}:param (\w+): /gm);
    expect(documented).toEqual([...fields, ...CALL, "task", "wait"].toSorted());
  });
  test("run() of TypeScript, as the compiler sees it", () => {
    expectTypeOf<Exclude<keyof RunParameters, "task" | "wait" | "label" | "tags" | "idempotency_key">>().toEqualTypeOf<
      Exclude<keyof RunSpecInput, "entrypoint" | "args">
    >();
  });
});

test("Python's statuses of an ended run are the outcomes of src/schemas/names.ts", () => {
  expect(words("python/svc/_records.py", /^TERMINAL_STATUSES = frozenset\(\{(.*?)\}\)/ms)).toEqual([...OUTCOMES]);
});

describe("the fields of each kind of notification target, as NotifyTarget has them, are also", () => {
  const shapes = Object.fromEntries(
    NotifyTarget.options.map(({ shape }) => {
      const { kind, ...fields } = shape;
      const names = Object.keys(fields);
      const isNeeded = (name: string): boolean =>
        !(fields as Record<string, { safeParse(value: unknown): { success: boolean } }>)[name]?.safeParse(undefined)
          .success ||
        (name === "secret_ref" && needsSecret(kind.value));
      return [
        kind.value,
        [names.filter(isNeeded).toSorted(), names.filter((name) => !isNeeded(name)).toSorted()] as const,
      ];
    }),
  );
  test("in src/schemas/notify-names.ts, for both SDKs", () => {
    const listed = Object.entries(TARGET_FIELDS).map(([kind, { needed, others }]) => [
      kind,
      [needed.toSorted(), others.toSorted()],
    ]);
    expect(Object.fromEntries(listed)).toEqual(shapes);
  });
});

test("the defaults of stored specs in src/schemas/stored-spec.ts are those of the schema", () => {
  const { entrypoint: _, ...defaults } = RunSpec.parse({ entrypoint: "train.py" });
  expect(specDefaults()).toEqual(defaults);
});

test("the steps of docs/internals/glossary.md are those of src/schemas/names.ts", () => {
  expect(read("docs/internals/glossary.md")).toContain(`${STEP_NAMES.join(", ")}.`);
});

test("every page of the dashboard has its row in docs/reference/dashboard.md, and is tested", () => {
  const pages = /^const PAGES[^\n]*= \{(.*?)^\}/ms.exec(read("dashboard/src/app.tsx"))?.[1] ?? "";
  const paths = [...pages.matchAll(/"(\/[a-z/-]+)":/g)].map(([, path = ""]) => path);
  expect(paths.length, "dashboard/src/app.tsx has no such list any more: mend the pattern").toBeGreaterThan(0);
  const table = read("docs/reference/dashboard.md");
  expect(paths.filter((path) => !new RegExp(`^\\|[^|]*\`${path}[\`?]`, "m").test(table))).toEqual([]);
  const looked = read("test/dashboard/pages.test.ts");
  expect(paths.filter((path) => !new RegExp(`path: "${path}["?]`).test(looked))).toEqual([]);
});

test("every command of the CLI has its row in docs/reference/cli.md", () => {
  const text = read("docs/reference/cli.md");
  expect(COMMANDS.map(({ name }) => name).filter((name) => !text.includes(`| \`svc ${name}`))).toEqual([]);
});
