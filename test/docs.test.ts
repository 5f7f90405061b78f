// Checks that everything the pages name exists: linked files, npm scripts, routes of the API, commands of the CLI and
// their flags.

import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROUTES } from "../src/api/routes/index.ts";
import { allCommands } from "../src/cli/commands/index.ts";
import { homeLayout } from "../src/platform/home-layout.ts";

const COMMANDS = await allCommands();

const ROOT = join(import.meta.dirname, "..");
const PAGES = globSync(["*.md", "docs/**/*.md", "examples/*/*.md"], { cwd: ROOT }).toSorted();
const EVERYWHERE = ["--json", "--help", "--version"];

interface Found {
  page: string;
  text: string;
}

const read = (page: string): string => readFileSync(join(ROOT, page), "utf8");

/** Inline code and the lines of fenced blocks; a `text` block shows output, not a call. */
function codeOf(page: string): Found[] {
  const text = read(page);
  const fenced = [...text.matchAll(/^```([^\n]*)\n([^]*?)^```$/gm)]
    .filter(([, info]) => info !== "text")
    .flatMap(([, , lines = ""]) => lines.split("\n"));
  const inline = [...text.replaceAll(/^```[^]*?^```$/gm, "").matchAll(/`([^`\n]+)`/g)].map((m) => m[1] ?? "");
  return [...fenced, ...inline].map((line) => ({ page, text: line }));
}

const CODE = PAGES.flatMap(codeOf);

/** Words of each `svc …` in a line of code, up to where the shell would end the command. */
function svcCalls({ page, text }: Found): (Found & { words: string[] })[] {
  return [...text.matchAll(/(?:^|[\s$(])(?:bin\/)?svc ([^|;&#>)"'`]*)/g)].map((m) => ({
    page,
    text,
    words: (m[1] ?? "").trim().split(/\s+/).filter(Boolean),
  }));
}

/** The error of a call, or null. */
function objection(words: readonly string[]): string | null {
  const [name = "", ...rest] = words;
  if (name.startsWith("-")) return EVERYWHERE.includes(name) ? null : `there is no flag ${name}`;
  if (!/^[a-z]+$/.test(name)) return null; // <command>, …
  // `svc help WORD` is the help of a command or a page.
  if (name === "help") return null;
  const command = COMMANDS.find((c) => c.name === name);
  if (!command) return `there is no command ${name}`;
  const end = rest.indexOf("--");
  const flags = (end < 0 ? rest : rest.slice(0, end)).filter((word) => /^--[a-z]/.test(word));
  const known = [...EVERYWHERE, ...command.options.flatMap((o) => o.flags.match(/--[a-z-]+/g) ?? [])];
  const stranger = flags.map((flag) => flag.split(/[=,]/)[0] ?? flag).find((flag) => !known.includes(flag));
  return stranger === undefined ? null : `svc ${name} has no flag ${stranger}`;
}

describe("the pages", () => {
  it("link to existing files", () => {
    const broken = PAGES.flatMap((page) =>
      [...read(page).matchAll(/\]\(([^)\s]+)\)/g)]
        .map((m) => m[1] ?? "")
        .filter((target) => !/^(https?:|mailto:|#)/.test(target))
        .filter((target) => !existsSync(join(ROOT, dirname(page), target.split("#")[0] ?? "")))
        .map((target) => `${page}: ${target}`),
    );
    expect(broken).toEqual([]);
  });

  it("link to headings that are there", () => {
    /** The anchor that GitHub makes of a heading. */
    const anchorsOf = (page: string): string[] =>
      [
        ...read(page)
          .replaceAll(/^```[^]*?^```$/gm, "")
          .matchAll(/^#+ (.*)$/gm),
      ].map(([, title = ""]) =>
        title
          .toLowerCase()
          .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
          .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
          .replaceAll(" ", "-"),
      );
    const broken = PAGES.flatMap((page) =>
      [...read(page).matchAll(/\]\(([^)\s:]*)#([^)\s]+)\)/g)].flatMap(([, file = "", anchor = ""]) => {
        const target = file === "" ? page : join(dirname(page), file);
        return !target.endsWith(".md") || !existsSync(join(ROOT, target)) || anchorsOf(target).includes(anchor)
          ? []
          : [`${page}: ${file}#${anchor}`];
      }),
    );
    expect(broken).toEqual([]);
  });

  it("prove each of the 34 points of the comparison with files that are there", () => {
    const rows = [...read("docs/quality/peers.md").matchAll(/^\| (\d+) \|.*\| ([^|]*) \|$/gm)];
    expect(rows.map(([, point]) => Number(point))).toEqual(Array.from({ length: 34 }, (_, n) => n + 1));
    for (const [, point, proof = ""] of rows) {
      const files = [...proof.matchAll(/`([^`]+)`/g)].map(([, file = ""]) => file);
      expect(
        files.filter((file) => !existsSync(join(ROOT, file))),
        `point ${point}`,
      ).toEqual([]);
      expect(files.length, `point ${point}`).toBeGreaterThan(0);
    }
  });

  it("can all be reached from the README", () => {
    const reached = new Set(["README.md"]);
    for (const page of reached)
      for (const [, target = ""] of read(page).matchAll(/\]\(([^)\s#]+)[^)]*\)/g)) {
        const to = join(dirname(page), target);
        for (const each of PAGES) if (each === to || `${dirname(each)}/` === to) reached.add(each);
      }
    expect(PAGES.filter((page) => !reached.has(page))).toEqual([]);
  });

  it("name every path of the API", () => {
    const said = ["docs/reference/http-api.md", "docs/reference/models.md"].map(read).join("\n");
    const missing = ROUTES.filter(({ path }) => {
      const parts = path.split("/").slice(1);
      const ways = [path, ...parts.slice(1).map((_, i) => `…/${parts.slice(i + 1).join("/")}`)];
      return !ways.some((way) => said.replaceAll(way, "\0").match(/\0(?![\w/{.-])/));
    });
    expect(missing.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
  });

  it("name existing routes of the API", () => {
    const pattern = (path: string): RegExp => new RegExp(`^${path.replaceAll(/\{[^}]*\}/g, "[^/]+")}$`);
    const calls = CODE.filter(({ page }) => !page.startsWith("docs/providers/")).flatMap(({ page, text }) =>
      [...text.matchAll(/\b(GET|POST|PUT|PATCH|DELETE) (\/(?!_sim)[\w./{}-]+)/g)].map(([call, method, path = ""]) => ({
        page,
        call,
        there: ROUTES.some((route) => route.method === method && pattern(route.path).test(path)),
      })),
    );
    expect(calls.length).toBeGreaterThan(40);
    expect(calls.filter(({ there }) => !there).map(({ page, call }) => `${page}: ${call}`)).toEqual([]);
  });

  it("name existing tests", () => {
    const named = CODE.flatMap(({ page, text }) =>
      [...text.matchAll(/\btest\/[\w./*-]+\.test\.ts\b/g)].map(([path]) => ({ page, path })),
    );
    expect(named.length).toBeGreaterThan(50);
    const gone = named.filter(({ path }) => globSync(path, { cwd: ROOT }).length === 0);
    expect(gone.map(({ page, path }) => `${page}: ${path}`)).toEqual([]);
  });

  it("name every file and folder of a home", () => {
    const [, table = ""] = /^## The home [^\n]*\n([^]*?)^## /m.exec(read("docs/internals/architecture.md")) ?? [];
    const named = [...table.matchAll(/^\| `([^`/]+)/gm)].map(([, name]) => name);
    const made = Object.values<(home: string, jobId: string, which: never) => string>(homeLayout).map(
      (of) => of("/home", "job", "one" as never).split("/")[2],
    );
    expect(new Set(made).size).toBeGreaterThan(15);
    expect(made.filter((name) => !named.includes(name))).toEqual([]);
  });

  it("give each invariant of the architecture a test that holds it", () => {
    const [, list = ""] = /^## Invariants\n([^]*?)^## /m.exec(read("docs/internals/architecture.md")) ?? [];
    const invariants = list.split(/^- /m).slice(1);
    expect(invariants.length).toBeGreaterThan(10);
    expect(invariants.filter((text) => !/`test\/[\w./*-]+\.test\.ts`/.test(text))).toEqual([]);
  });

  it("tell each change once: a part of the changelog has no heading twice, and a release no beginning of a line", () => {
    const doubles = (texts: string[]): string[] => texts.filter((text, n) => texts.indexOf(text) !== n);
    const releases = read("CHANGELOG.md").split(/^## /m).slice(1);
    const headings = releases.flatMap((release) =>
      release.split(/^### /m).flatMap((part) => doubles(part.match(/(?<=\n\n)[A-Z][^\n]*[^.\n](?=\n\n- )/g) ?? [])),
    );
    const beginnings = releases.flatMap((release) => doubles(release.match(/^- .{45}/gm) ?? []));
    expect({ headings, beginnings }).toEqual({ headings: [], beginnings: [] });
  });

  it("name existing npm scripts", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const strangers = CODE.flatMap(({ page, text }) =>
      [...text.matchAll(/npm run (?:--silent )?([a-z][a-z:-]*)/g)]
        .map((m) => m[1] ?? "")
        .filter((name) => !(name in scripts))
        .map((name) => `${page}: npm run ${name}`),
    );
    expect(strangers).toEqual([]);
  });

  it("name existing commands and flags", () => {
    // The first hour shows what a stranger typed, mistakes included.
    const calls = CODE.filter(({ page }) => page !== "docs/quality/first-hour.md").flatMap(svcCalls);
    expect(calls.length).toBeGreaterThan(100);
    const wrong = calls.flatMap(({ page, words }) => {
      const why = objection(words);
      return why === null ? [] : [`${page}: svc ${words.join(" ")}: ${why}`];
    });
    expect(wrong).toEqual([]);
  });
});
