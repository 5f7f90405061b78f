// Makes docs/reference/sdk.md from the text of both SDKs: their exports with signatures and docstrings.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

interface PythonName {
  kind: "function" | "class";
  signature?: string;
  doc: string;
  bases?: string[];
  made?: string | null;
  fields?: string[];
  properties?: { signature: string; doc: string }[];
  methods?: { signature: string; doc: string }[];
}

/** @param notice the line that names the page's source. */
export function sdkReferencePage(notice: string): string {
  const root = join(import.meta.dirname, "../..");
  return [
    notice,
    "# SDK reference",
    "",
    'What `import svc` and `import … from "svc"` give. How they are used is told in [python.md](python.md); the fields of a run in',
    "[http-api-routes.md](http-api-routes.md#runspec); errors, which carry the same `code`, `message` and `hint` in both, in [errors.md](errors.md).",
    "",
    "## Python",
    "",
    ...pythonNames(root),
    "## TypeScript",
    "",
    ...typescriptNames(join(root, "sdk/index.ts")),
  ].join("\n");
}

interface PythonSdk {
  modules: Record<string, Record<string, PythonName>>;
  /** For each class, the codes of its errors, or the beginnings of these codes. */
  codes: Record<string, string[]>;
}

function pythonSdk(root: string): PythonSdk {
  const script = join(import.meta.dirname, "python_names.py");
  return JSON.parse(execFileSync("python3", ["-I", script, join(root, "python")], { encoding: "utf8" })) as PythonSdk;
}

/** The exceptions of the Python package as a tree, each with the first sentence of its docstring; then the codes of each. */
export function errorTree(root: string): string[] {
  const { modules, codes } = pythonSdk(root);
  const errors = Object.entries(modules["svc"] ?? {}).filter(([, { bases }]) =>
    bases?.some((base) => /Error$|^Exception$/.test(base)),
  );
  const below = (parent: string): typeof errors => errors.filter(([, { bases }]) => bases?.[0] === parent);
  const rows: [string, string][] = [];
  const draw = (parent: string, indent: string): void => {
    const children = below(parent);
    for (const [n, [name, { bases = [], doc }]] of children.entries()) {
      const last = n === children.length - 1;
      const also = bases
        .slice(1)
        .map((base) => ` (also ${base})`)
        .join("");
      rows.push([
        `${indent}${last ? "└── " : "├── "}${name}${also}`,
        oneLine(doc)
          .replaceAll("``", "")
          .split(/(?<=\.) /)[0] ?? "",
      ]);
      draw(name, `${indent}${last ? "    " : "│   "}`);
    }
  };
  draw("Exception", "");
  const width = Math.max(...rows.map(([name]) => name.length));
  return [
    ...code("text", ["Exception", ...rows.map(([name, words]) => `${name.padEnd(width)}   ${words}`)]),
    "| class | codes (`*`: all that begin so; any other code is a plain `SvcError`) |",
    "| --- | --- |",
    ...Object.entries(codes).map(([name, list]) => `| \`${name}\` | ${list.map((one) => `\`${one}\``).join(", ")} |`),
  ];
}

function pythonNames(root: string): string[] {
  return Object.entries(pythonSdk(root).modules).flatMap(([module, names]) =>
    Object.entries(names).flatMap(([name, of]) => pythonName(`${module}.${name}`, name, of)),
  );
}

function pythonName(title: string, name: string, of: PythonName): string[] {
  const lines = [`### \`${title}\``, ""];
  if (of.kind === "function") return [...lines, ...code("python", [of.signature ?? name]), ...prose(of.doc)];
  const bases = of.bases?.length ? `(${of.bases.join(", ")})` : "";
  const made = of.made
    ? [of.made]
    : [`class ${name}${bases}${of.fields?.length ? ":" : ""}`, ...(of.fields ?? []).map((field) => `    ${field}`)];
  lines.push(...code("python", made), ...prose(of.doc));
  for (const { signature, doc } of [...(of.properties ?? []), ...(of.methods ?? [])])
    lines.push(`- \`${signature}\`: ${oneLine(doc)}`);
  return of.properties?.length || of.methods?.length ? [...lines, ""] : lines;
}

/** A docstring as Markdown: its `:param` lines become a list, its double backticks single ones. */
function prose(doc: string): string[] {
  if (doc.trim() === "") return [];
  const paragraphs = doc
    .replaceAll("``", "`")
    .split(/\n(?=:param )|\n\s*\n/)
    .map(oneLine)
    .map((text) => text.replace(/^:param (\w+): /, "- `$1`: "));
  return paragraphs.flatMap((text, n) =>
    text.startsWith("- `") && paragraphs[n + 1]?.startsWith("- `") ? [text] : [text, ""],
  );
}

function typescriptNames(index: string): string[] {
  const lines: string[] = [];
  for (const [, names = "", from = ""] of readFileSync(index, "utf8").matchAll(
    /export (?:type )?\{([^}]+)\} from "([^"]+)"/g,
  )) {
    const text = readFileSync(join(dirname(index), from), "utf8");
    for (const name of names.split(",").map((one) => one.trim().replace(/^type /, "")))
      if (name !== "" && from.includes("/schemas/"))
        lines.push(`### \`${name}\``, "", `[As the API answers it](http-api-routes.md#${name.toLowerCase()}).`, "");
      else if (name !== "") lines.push(...typescriptName(name, text));
  }
  return lines;
}

function typescriptName(name: string, text: string): string[] {
  const found = new RegExp(
    `(?:/\\*\\*((?:(?!\\*/)[^])*)\\*/\\n)?export (?:async )?(?:function\\*?|const|class|interface|type) ${name}\\b`,
  ).exec(text);
  if (!found) throw new Error(`the export ${name} is not where sdk/index.ts says`);
  const shown = declaration(text.slice(found.index + found[0].lastIndexOf("export"))).replace(/ \{$/, "");
  if (shown.startsWith(`export const ${name} = {`)) return members(name, shown);
  return [`### \`${name}\``, "", ...code("ts", shown.split("\n")), ...prose(comment(found[1] ?? ""))];
}

/** The functions of an object, each as a separate function. */
function members(object: string, text: string): string[] {
  const each = text.matchAll(/\n {2}\/\*\*((?:(?!\*\/)[^])*)\*\/\n {2}(?:async )?(\w+)(?:: )?(\([^]*?)(?: \{\n| =>)/g);
  return [...each].flatMap(([, doc = "", name = "", rest = ""]) => [
    `### \`${object}.${name}\``,
    "",
    ...code("ts", [`${object}.${name}${rest}`]),
    ...prose(comment(doc)),
  ]);
}

const comment = (text: string): string => text.replaceAll(/^\s*\* ?/gm, "").trim();

/** The text before the body of a function, or a whole type. */
function declaration(text: string): string {
  const whole = /^export (interface|type|const \w+ = \{)/.test(text);
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if ("({[<".includes(char) && text.slice(at - 1, at + 1) !== "=<") {
      if (char === "{" && depth === 0 && !whole) return text.slice(0, at).trim();
      depth++;
    } else if (")}]".includes(char) || (char === ">" && text[at - 1] !== "=")) {
      depth--;
      if (depth === 0 && char === "}" && whole && text[at + 1] !== " ") return text.slice(0, at + 1);
    } else if (depth === 0 && char === ">" && !whole) return text.slice(0, at - 1).trim();
    else if (depth === 0 && char === ";") return text.slice(0, at);
  }
  return text;
}

const code = (language: string, lines: string[]): string[] => [`\`\`\`${language}`, ...lines, "```", ""];
const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ").trim();
