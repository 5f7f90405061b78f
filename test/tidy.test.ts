// Holds the layout: which folder may import which, where dangerous calls are allowed, and that generated pages are
// current.
//
// T1. The five leaves (descriptors, schemas, errors, domain, platform) are open to all; beyond them a folder imports
//     only what NEIGHBOURS grants it. No circle of imports, not even within a folder: files that import each other are
//     one idea, or hide a third.
// T2. A package that does I/O has one home; time and randomness reach the pure parts only through Clock and Ids.
// T3. Every finding names file and line, so that an editor can open it.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { generatedPages } from "../scripts/generate-docs.ts";
import { proseFolders, sharesOf } from "../scripts/lib/prose.ts";
import { PROVIDER_NAMES, THIS_COMPUTER } from "../src/providers/descriptors.ts";
import { DEADLINE_MS } from "./deadline.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const LINES_MAX = 500;

const LEAVES = ["src/descriptors", "src/schemas", "src/errors", "src/domain", "src/platform"];

/**
 * The allowed imports. A folder is its first two path parts below src/; `sdk` and `dashboard` are folders of their own.
 */
const NEIGHBOURS: Record<string, readonly string[]> = {
  "src/descriptors": [],
  "src/schemas": ["src/descriptors"],
  "src/errors": ["src/descriptors"],
  "src/domain": ["src/descriptors", "src/schemas", "src/errors"],
  "src/platform": ["src/errors", "src/domain"],
  "src/machines": [],
  "src/providers": [],
  "src/ssh": ["src/providers", "src/files"],
  "src/secrets": [],
  "src/files": [],
  "src/hub": [],
  "src/store": [],
  "src/sinks": ["src/store", "src/secrets", "src/providers"],
  "src/notify": ["src/store", "src/secrets"],
  "src/steps": ["src/providers", "src/secrets", "src/files"],
  "src/engine": ["src/machines", "src/steps", "src/store", "src/providers"],
  "src/api": ["src/engine", "src/store", "src/files"],
  "src/cli": ["sdk", "src/app", "src/store", "src/api", "src/files"],
  "src/app": ["*"],
  sdk: [],
  dashboard: [],
};
/** Only types may be imported from these neighbours: their code must not be reachable from there. */
const TYPES_ONLY = new Set(["src/engine > src/providers", "src/ssh > src/providers"]);

const WHAT_TO_DO =
  "Move what is imported to where both may reach it (schemas, errors, domain), or hand it in from the composition root. Only if the arrow itself is right: grant it in NEIGHBOURS or HOMES of test/tidy.test.ts, and in the table of docs/internals/architecture.md";

/** A package and the only folders that may name it. */
const HOMES: Record<string, readonly string[]> = {
  ssh2: ["src/ssh"],
  // `svc doctor` proves that the native part loads on this computer.
  "better-sqlite3": ["src/store", "src/cli/commands/doctor/control-plane.ts"],
  kysely: ["src/store"],
  fastify: ["src/api", "src/app"],
  "@fastify/websocket": ["src/api"],
  xstate: ["src/machines", "src/engine"],
  "@aws-sdk/client-s3": ["src/sinks"],
  "@aws-sdk/credential-provider-node": ["src/sinks"],
  nodemailer: ["src/notify"],
  cac: ["src/cli"],
  "google-auth-library": ["src/providers"],
  react: ["dashboard"],
  uplot: ["dashboard"],
};

interface Source {
  path: string;
  lines: string[];
}

function sources(...folders: string[]): Source[] {
  return folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => /\.(ts|tsx|mjs)$/.test(name) && !/(^|\/)(node_modules|dist)\//.test(name))
      .toSorted()
      .map((name) => ({ path: join(folder, name), lines: readFileSync(join(ROOT, folder, name), "utf8").split("\n") })),
  );
}

/** A provider's description is in its folder, and has its own entry: `src/descriptors` in NEIGHBOURS. */
const DESCRIPTORS = /^src\/providers\/(descriptors?|[a-z]+\/descriptor)\.ts$/;

function pythonSources(...folders: string[]): Source[] {
  return folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".py"))
      .toSorted()
      .map((name) => ({ path: join(folder, name), lines: readFileSync(join(ROOT, folder, name), "utf8").split("\n") })),
  );
}

function folderOf(path: string): string {
  if (DESCRIPTORS.test(path)) return "src/descriptors";
  const parts = path.split("/");
  return parts[0] === "src" ? parts.slice(0, 2).join("/") : (parts[0] ?? path);
}

interface Import {
  line: number;
  specifier: string;
  typeOnly: boolean;
}

/** The imports of a file, static, re-exported, of many lines, and dynamic. */
function importsOf(lines: readonly string[]): Import[] {
  const text = lines.join("\n");
  const found: Import[] = [];
  const forms =
    /(?:^|\n)\s*(?:import|export)\s+(type\s+)?(?:[\w*{][^;"'`]*?\sfrom\s+)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)/g;
  for (const match of text.matchAll(forms)) {
    const specifier = match[2] ?? match[3] ?? "";
    const at = match.index + match[0].lastIndexOf(specifier);
    found.push({ line: text.slice(0, at).split("\n").length, specifier, typeOnly: match[1] !== undefined });
  }
  return found;
}

/** The error of one import, or undefined. */
function objection(path: string, { specifier, typeOnly }: Omit<Import, "line">): string | undefined {
  const from = folderOf(path);
  if (specifier.startsWith(".")) {
    const to = folderOf(normalize(join(dirname(path), specifier)));
    const allowed = NEIGHBOURS[from];
    if (allowed === undefined) return `the folder ${from} has no row in NEIGHBOURS`;
    if (to === from || allowed.includes("*")) return undefined;
    if (LEAVES.includes(to) && !LEAVES.includes(from)) return undefined;
    if (!allowed.includes(to)) return `${from} may not import ${to}`;
    if (TYPES_ONLY.has(`${from} > ${to}`) && !typeOnly) return `${from} may import only types of ${to}`;
    return undefined;
  }
  const parts = specifier.split("/");
  const name = specifier.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] ?? specifier);
  const homes = HOMES[name];
  return homes && !homes.includes(from) && !homes.includes(path) && !typeOnly
    ? `${name} may be imported only in ${homes.join(", ")}`
    : undefined;
}

/**
 * The first circle of imports that is found: its files, with the first one again at the end; undefined if there is
 * none.
 */
function circleIn(imported: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const from = (path: string, way: readonly string[]): string[] | undefined => {
    if (way.includes(path)) return [...way.slice(way.indexOf(path)), path];
    if (done.has(path)) return undefined;
    for (const next of imported.get(path) ?? []) {
      const circle = from(next, [...way, path]);
      if (circle) return circle;
    }
    done.add(path);
    return undefined;
  };
  for (const path of imported.keys()) {
    const circle = from(path, []);
    if (circle) return circle;
  }
  return undefined;
}

const PRODUCT = sources("src", "sdk", "dashboard/src");
const ALL = [...PRODUCT, ...sources("test", "bench", "scripts")];

/** Every line of `files` that matches, as `path:line: text`. Whole-line comments do not count. */
function linesWith(files: readonly Source[], pattern: RegExp, comments = false): string[] {
  return files.flatMap(({ path, lines }) =>
    lines.flatMap((line, i) =>
      pattern.test(line) && (comments || !/^\s*(\/\/|\*|\/\*)/.test(line)) ? [`${path}:${i + 1}: ${line.trim()}`] : [],
    ),
  );
}
const within = (...folders: string[]): Source[] => PRODUCT.filter(({ path }) => folders.includes(folderOf(path)));

describe("the checker itself", () => {
  const check = (path: string, specifier: string, typeOnly = false): string | undefined =>
    objection(path, { specifier, typeOnly });

  test("sees arrows that turn back, misplaced packages, and unplaced folders", () => {
    expect(check("src/machines/job-machine.ts", "../engine/interpreter.ts")).toBe(
      "src/machines may not import src/engine",
    );
    expect(check("src/schemas/job.ts", "../domain/price.ts")).toBe("src/schemas may not import src/domain");
    expect(check("sdk/client.ts", "../src/store/reads.ts")).toBe("sdk may not import src/store");
    expect(check("src/engine/a.ts", "../providers/local/provider.ts")).toBe(
      "src/engine may import only types of src/providers",
    );
    expect(check("src/engine/a.ts", "better-sqlite3")).toBe(
      "better-sqlite3 may be imported only in src/store, src/cli/commands/doctor/control-plane.ts",
    );
    expect(check("src/store/a.ts", "kysely/migration")).toBeUndefined();
    expect(check("src/helpers/a.ts", "../schemas/job.ts")).toBe("the folder src/helpers has no row in NEIGHBOURS");
    expect(check("src/steps/provision.ts", "../domain/price.ts")).toBeUndefined();
    expect(check("src/app/app.ts", "../providers/local/provider.ts")).toBeUndefined();
  });

  test("finds a cycle of imports, and none if two paths lead to one file", () => {
    const files = (arrows: Record<string, string[]>): Map<string, string[]> => new Map(Object.entries(arrows));
    expect(circleIn(files({ a: ["b", "c"], b: ["d"], c: ["d"], d: ["e"] }))).toBeUndefined();
    expect(circleIn(files({ a: ["b"], b: ["c"], c: ["d", "b"] }))).toEqual(["b", "c", "b"]);
    expect(circleIn(files({ a: ["a"] }))).toEqual(["a", "a"]);
  });

  test("reads every form of import", () => {
    const text = `import a from "a";\nimport type { B } from "./b.ts";\nimport {\n  c,\n} from "../c.ts";\nexport * from "d";\nimport "e";\nconst f = await import("f");\nconst s = "import";`;
    expect(importsOf(text.split("\n"))).toEqual([
      { line: 1, specifier: "a", typeOnly: false },
      { line: 2, specifier: "./b.ts", typeOnly: true },
      { line: 5, specifier: "../c.ts", typeOnly: false },
      { line: 6, specifier: "d", typeOnly: false },
      { line: 7, specifier: "e", typeOnly: false },
      { line: 8, specifier: "f", typeOnly: false },
    ]);
  });
});

describe("the layout", () => {
  test("arrows between folders never turn back, and each package is used only in its own folder", () => {
    const findings = PRODUCT.flatMap(({ path, lines }) =>
      importsOf(lines).flatMap((found) => {
        const why = objection(path, found);
        return why ? [`${path}:${found.line}: ${why} (${found.specifier})`] : [];
      }),
    );
    expect(PRODUCT.length).toBeGreaterThan(20);
    expect(findings, WHAT_TO_DO).toEqual([]);
  });

  test("every arrow that is granted is used", () => {
    const used = new Set(
      PRODUCT.flatMap(({ path, lines }) =>
        importsOf(lines).map(
          ({ specifier }) => `${folderOf(path)} > ${folderOf(normalize(join(dirname(path), specifier)))}`,
        ),
      ),
    );
    const granted = Object.entries(NEIGHBOURS).flatMap(([from, to]) => to.map((one) => `${from} > ${one}`));
    expect(granted.filter((arrow) => !arrow.endsWith("*") && !used.has(arrow))).toEqual([]);
  });

  test("no two files import each other, nor does any file import itself by way of others", () => {
    const imported = new Map(
      PRODUCT.map(({ path, lines }) => [
        path,
        importsOf(lines).flatMap(({ specifier }) =>
          specifier.startsWith(".") ? [normalize(join(dirname(path), specifier))] : [],
        ),
      ]),
    );
    expect(circleIn(imported)).toBeUndefined();
  });

  test("docs/internals/architecture.md grants the same arrows", () => {
    const text = readFileSync(join(ROOT, "docs/internals/architecture.md"), "utf8");
    const rows = [...text.matchAll(/^\| `(src\/[a-z]+)\/` \|[^|]*\| ([^|]*) \|$/gm)];
    const granted = Object.fromEntries(
      rows.map(([, folder = "", cell = ""]) => [folder, cell === "—" ? [] : cell.split(", ").toSorted()]),
    );
    // The document names a folder of src/ by its name alone, and says `all` for `*`.
    const named = (from: string, to: string): string =>
      to === "*" ? "all" : to.replace(/^src\//, "") + (TYPES_ONLY.has(`${from} > ${to}`) ? " (types)" : "");
    const held = Object.entries(NEIGHBOURS)
      .filter(([folder]) => /^src\/[a-z]+$/.test(folder))
      .map(([from, to]) => [from, to.map((one) => named(from, one)).toSorted()]);
    expect(granted, "the table of docs/internals/architecture.md and NEIGHBOURS of test/tidy.test.ts differ").toEqual(
      Object.fromEntries(held),
    );
  });

  test(`no file has more than ${LINES_MAX} lines, and no file of a command more than 120`, () => {
    const most = (path: string): number => (/^src\/cli\/commands\/[^/]+$/.test(path) ? 121 : LINES_MAX);
    const long = ALL.filter(({ path, lines }) => lines.length > most(path));
    expect(long.map(({ path, lines }) => `${path}: ${lines.length}`)).toEqual([]);
  });

  test("file names are kebab-case and none is a catch-all", () => {
    const names = ALL.map(({ path }) => path).filter((path) => {
      const name = path.split("/").at(-1) ?? "";
      return (
        !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+)*\.(ts|tsx|mjs)$/.test(name) ||
        /^(utils?|helpers?|misc|common)\./.test(name)
      );
    });
    expect(names).toEqual([]);
  });

  test("a file of more than 60 lines begins with what it does", () => {
    const bare = ALL.filter(({ path, lines }) => !/(^|\/)test\//.test(path) && lines.length > 60).filter(
      ({ lines }) => !/^(\/\/ |\/\*\*|#!)/.test(lines[0] ?? ""),
    );
    expect(bare.map(({ path }) => path)).toEqual([]);
  });

  test("no exported name has two meanings", () => {
    /** Each provider's folder and the commands are separate: their files repeat each other's names on purpose. */
    const own = /^src\/(providers\/[a-z]+\/|cli\/commands\/)/;
    const homes = new Map<string, string[]>();
    for (const { path, lines } of PRODUCT.filter(({ path }) => path.startsWith("src/") && !own.test(path)))
      for (const line of lines) {
        const name =
          /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|const|let|class|interface|type) (\w+)/.exec(
            line,
          )?.[1];
        if (name !== undefined) homes.set(name, [...new Set([...(homes.get(name) ?? []), path])]);
      }
    expect(
      [...homes].filter(([, paths]) => paths.length > 1).map(([name, paths]) => `${name}: ${paths.join(", ")}`),
    ).toEqual([]);
  });

  test("src overrules the compiler rarely: at most 4 `as` and 1 `!` in a thousand lines", () => {
    const NOT_CODE =
      /\/\*[^]*?\*\/|\/\/[^\n]*|`(?:\\.|[^`])*`|"(?:\\.|[^"\n\\])*"|\/(?![/*\s])(?:\\.|\[(?:\\.|[^\]\n])*\]|[^/\n\\[])+\/[gimsuyd]*(?=[\s.,;)\]])/g;
    const files = PRODUCT.filter(({ path }) => path.startsWith("src/"));
    const text = files.map(({ lines }) => lines.join("\n")).join("\n");
    const code = text.replaceAll(NOT_CODE, " ").replaceAll(/\bimport\b[^;]*?\bfrom\b|export \{[^}]*\}/g, "");
    const share = (pattern: RegExp): number => (1_000 * [...code.matchAll(pattern)].length) / text.split("\n").length;
    expect(share(/\bas (?!const\b)[\w{(["]/g)).toBeLessThanOrEqual(4);
    expect(share(/[\w\])]!(?=[.;,)\][\s])(?!=)/g)).toBeLessThanOrEqual(1);
  });

  test("every rule that a comment cites is defined in its file, or in the head of its Python package", () => {
    const DEFINITION = /^\s*(?:\/\/|\*)?\s*([A-Z]\d{1,2})\./;
    const defined = (lines: readonly string[]): string[] => lines.flatMap((line) => DEFINITION.exec(line)?.[1] ?? []);
    const python = pythonSources("runner", "python");
    const undefinedRules = [...PRODUCT, ...python].flatMap(({ path, lines }) => {
      const head = python.find((one) => one.path === join(dirname(path), "__init__.py"));
      const known = new Set([...defined(lines), ...defined(head?.lines ?? [])]);
      return lines.flatMap((line, n) =>
        [...line.matchAll(/(?:\/\/|\*|#|""").*?\(([A-Z]\d{1,2})\)/g)]
          .filter(([, rule = ""]) => !known.has(rule))
          .map(([, rule]) => `${path}:${n + 1}: ${rule}`),
      );
    });
    expect(undefinedRules).toEqual([]);
  });

  test("machines and engine take time and randomness only from Clock and Ids", () => {
    const banned =
      /\bDate\.now\(|\bnew Date\(\)|\bMath\.random\(|\bsetTimeout\(|\bsetInterval\(|\brandomUUID\(|\bperformance\.now\(/;
    expect(linesWith(within("src/machines", "src/engine"), banned)).toEqual([]);
  });

  test("thrown errors are in the catalogue: no bare Error", () => {
    const files = within(...Object.keys(NEIGHBOURS).filter((folder) => folder !== "dashboard"));
    expect(
      linesWith(
        files.filter(({ path }) => !path.endsWith("/assert.ts")),
        /\bthrow new (Type|Range)?Error\(/,
      ),
    ).toEqual([]);
  });

  test("only src/platform/home-layout.ts joins path names to the home", () => {
    const joined = /(?<!os\.path\.)\bjoin\([\w.#]*[hH]ome(\(\))?, *["'`](?!\.)/;
    const files = PRODUCT.filter(({ path }) => path !== "src/platform/home-layout.ts");
    expect(linesWith(files, joined), "give the path a name there").toEqual([]);
  });

  test("only src/domain/terminal-text.ts says which characters a terminal obeys", () => {
    const files = PRODUCT.filter(({ path }) => path !== "src/domain/terminal-text.ts");
    expect(linesWith(files, /\\u20(2e|66|0e)/i)).toEqual([]);
  });

  test("an error of the engine or of a step has a code, even if it is not thrown", () => {
    const found = linesWith(within("src/engine", "src/steps"), /\bnew (Type|Range)?Error\(/);
    // The reason of an abort is not shown to users.
    expect(found.filter((line) => !line.includes(".abort(new Error("))).toEqual([]);
  });

  test("a provider's name appears in quotes only in its folder and in the registry", () => {
    const shipped = [...PRODUCT, ...pythonSources("python/svc", "runner")];
    const quoted = (name: string): RegExp =>
      // This computer's name is also an English word: there, only statements about a provider count.
      name === THIS_COMPUTER
        ? new RegExp(`provider.*["'\`]${name}["'\`]|[!=]==? ["'\`]${name}["'\`]`)
        : new RegExp(`["'\`]${name}["'\`]`);
    const isIts = (path: string, name: string): boolean =>
      path.startsWith(`src/providers/${name}/`) || path === "python/svc/_providers.py" || isExample(path);
    // The example of a script that a person writes, the generated type, and the default of a signature.
    const isExample = (path: string): boolean =>
      /^(src\/cli\/commands\/run|dashboard\/src\/runs\/first-run)\.tsx?$/.test(path);
    const found = PROVIDER_NAMES.flatMap((name) =>
      linesWith(
        shipped.filter(({ path }) => !isIts(path, name)),
        quoted(name),
      ),
    ).filter((line) => !/^python.*(\bProviderName\b|``)/.test(line));
    expect(found, "read a fact of src/providers/<name>/descriptor.ts instead").toEqual([]);
  });

  test("no source puts work off", () => {
    const marks = /\b(T[O]DO|F[I]XME|X[X]X)\b/;
    expect(linesWith(ALL, marks, true)).toEqual([]);
  });
});

describe("the tests", () => {
  const TESTS = ALL.filter(({ path }) => path.startsWith("test/"));
  const isComment = (line = ""): boolean => /^\s*\/\/|;\s*\/\/ /.test(line);
  const number = (text: string): number => Number(text.replaceAll("_", ""));

  /**
   * Lines where `pattern` captures a number that is out of bounds, without an explaining comment on the line or above
   * it.
   */
  const unexplained = (pattern: RegExp, isOutOfBounds: (value: number) => boolean): string[] =>
    TESTS.flatMap(({ path, lines }) =>
      lines.flatMap((line, i) => {
        const found = [...line.matchAll(pattern)].some(([, ...values]) =>
          isOutOfBounds(number(values.find(Boolean) ?? "0")),
        );
        return found && !isComment(line) && !isComment(lines[i - 1]) ? [`${path}:${i + 1}: ${line.trim()}`] : [];
      }),
    );

  test("No test sleeps for more than half a second without a comment that says why", () => {
    const sleep = /(?:\bpause|(?<!time\.)\bsleep|\bsetTimeout)\((?:(?:resolve|done|r),\s*)?([0-9][0-9_]*)\b/g;
    expect(
      unexplained(sleep, (ms) => ms > 500),
      "wait for a condition (until, eventually, expect.poll)",
    ).toEqual([]);
  });

  test("No deadline of a test is shorter than the common one without a comment that says why", () => {
    const deadline =
      /\b(?:timeout: |AbortSignal\.timeout\()([0-9][0-9_]*)\b|\b(?:until|eventually|waitFor|waitUntil)\(.*, ([0-9][0-9_]*)\);$/g;
    expect(
      unexplained(deadline, (ms) => ms >= 1_000 && ms < DEADLINE_MS),
      "use DEADLINE_MS of test/deadline.ts",
    ).toEqual([]);
    const shortByDefault = /\bvi\.wait(For|Until)\((?!.*(DEADLINE_MS|timeout))/;
    expect(linesWith(TESTS, shortByDefault), "its default of one second is too short: pass DEADLINE_MS").toEqual([]);
  });

  /** A file that imports one of these starts a program, so the file, or each of its suites, has the program's tag. */
  const STARTERS: readonly (readonly [RegExp, string])[] = [
    [
      /\bimport \{[^}]*\bSshd\b[^}]*\} from "[./a-z]*\/sshd\.ts"|\bTestMachine\b[^;]* from "[./a-z]*\/machine\.ts"/,
      "needs/sshd",
    ],
    [/\bimport \{[^}]*\bkeygen\b[^}]*\} from "[./a-z]*\/sshd\.ts"/, "needs/(ssh|sshd)"],
    [/ from "[./a-z]*\/browser\.ts"/, "needs/chromium"],
    [
      /\b(spawn|spawnSync|execFile|execFileSync|run|tool)\("(strace|rsync|openssl|curl|setpriv|patch|perl)"/,
      "needs/$2",
    ],
    [/\b(spawn|spawnSync|execFile|execFileSync)\("(\/usr\/sbin\/)?sshd"/, "needs/sshd"],
    [/\b(spawn|spawnSync|execFile|execFileSync)\("(ssh|ssh-keygen|ssh-agent)"/, "needs/(ssh|sshd)"],
    [/\b(uid|setuid): ?[0-9]|\.setuid\(|process\.seteuid\(/, "needs/root"],
  ];

  test("A test that starts sshd, rsync, a browser or another user names its need as a tag", () => {
    const missing = TESTS.filter(({ path }) => path.endsWith(".test.ts")).flatMap(({ path, lines }) => {
      const text = lines.join("\n");
      return STARTERS.flatMap(([starts, need]) => {
        const found = starts.exec(text);
        if (found === null) return [];
        const tag = need.replace("$2", found[2] ?? "");
        return new RegExp(`\\b${tag}\\b`).test(text) ? [] : [`${path}: ${found[0]} needs the tag ${tag}`];
      });
    });
    expect(missing, "test/needs.ts lists the tags").toEqual([]);
  });
});

describe("the documentation", () => {
  test.each(generatedPages())("$path is what `npm run docs` writes", ({ path, text }) => {
    expect(readFileSync(join(ROOT, path), "utf8"), `${path} is out of date: run \`npm run docs\``).toBe(text);
  });

  test("generated pages show no missing value", () => {
    // The reference pages name such values in code and in sentences about them.
    const plain = (text: string): string => text.replaceAll(/```[^]*?```|`[^`\n]*`|\bNaN and infinities\b/g, "");
    const marks = generatedPages().flatMap(({ path, text }) =>
      (plain(text).match(/.*(?:\bNaN\b|undefined|\[object).*/g) ?? []).map((line) => `${path}: ${line.slice(0, 120)}`),
    );
    expect(marks).toEqual([]);
  });
});

describe("the prose", () => {
  test.each(proseFolders(ROOT))("%s stays below its ceiling of banned idioms", (folder) => {
    const over = sharesOf(ROOT, folder).filter(({ marked, allowed }) => marked > allowed);
    const lines = over.flatMap(({ kind, marked, allowed, found }) => [
      `${marked} ${kind}s, ${allowed} allowed:`,
      ...found.map(({ path, line, idiom, text }) => `${path}:${line}: ${idiom}: ${text.slice(0, 120)}`),
    ]);
    expect(lines, `npm run words -- ${folder} --list`).toEqual([]);
  });
});
