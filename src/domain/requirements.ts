// Converts dependencies in the formats of Python's tools to requirements that pip and uv read (PEP 508).

/** A table of a TOML or JSON file. */
export type Table = Readonly<Record<string, unknown>>;

export const isTable = (value: unknown): value is Table =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
export const tableOf = (value: unknown): Table => (isTable(value) ? value : {});
export const tablesOf = (value: unknown): Table[] => (Array.isArray(value) ? value.filter(isTable) : []);
export const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
export const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];

/** The project's name in a requirement, as PEP 503 compares names. */
export const nameOf = (requirement: string): string =>
  normalName(/^\s*([A-Za-z0-9][A-Za-z0-9._-]*)/.exec(requirement)?.[1] ?? "");
export const normalName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, "-");

/** A version constraint of poetry (`^1.2`, `~1.2`, `1.*`, `>=1,<2`) as PEP 440 has it; empty for any version. */
export function poetryVersion(constraint: string): string {
  // "a || b" has no counterpart: any version is better than a wrong one.
  if (constraint.includes("|")) return "";
  return constraint
    .split(",")
    .flatMap((part) => part.trim().split(/(?<=[0-9a-z*])\s+(?=[<>=!~^])/))
    .map((part) => part.replaceAll(/\s+/g, ""))
    .filter((part) => part !== "" && part !== "*")
    .map(onePoetryVersion)
    .join(",");
}

function onePoetryVersion(part: string): string {
  const caret = /^\^v?([0-9][\w.+!-]*)$/.exec(part)?.[1];
  if (caret !== undefined) return `>=${caret},<${afterCaret(caret)}`;
  const tilde = /^~v?([0-9][\w.+!-]*)$/.exec(part)?.[1];
  if (tilde !== undefined) {
    const [major = 0, minor] = numbersOf(tilde);
    return `>=${tilde},<${minor === undefined ? major + 1 : `${major}.${minor + 1}`}`;
  }
  if (/^[0-9]/.test(part)) return `==${part}`;
  return part.replace(/^=(?!=)/, "==");
}

const numbersOf = (version: string): number[] =>
  (/^[0-9]+(?:\.[0-9]+)*/.exec(version)?.[0] ?? "0").split(".").map(Number);

/** The first version that a caret excludes: the first part that is not zero is incremented. */
function afterCaret(version: string): string {
  const numbers = numbersOf(version);
  const first = numbers.findIndex((number) => number !== 0);
  const at = first < 0 ? numbers.length - 1 : first;
  return numbers.map((number, i) => (i < at ? number : i === at ? number + 1 : 0)).join(".");
}

/** A dependency of `[tool.poetry.dependencies]` or of a Pipfile; an optional one gives no requirement. */
export function tableRequirements(name: string, value: unknown, version: (text: string) => string): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => tableRequirements(name, each, version));
  if (typeof value === "string") return [`${name}${version(value)}`];
  if (!isTable(value) || value["optional"] === true) return [];
  const extras = textsOf(value["extras"]);
  const spelled = extras.length > 0 ? `${name}[${extras.join(",")}]` : name;
  const marker = markerOf(value, version);
  const path = textOf(value["path"]) ?? textOf(value["file"]);
  if (path !== undefined && !path.includes("://")) return [localPath(path, extras)];
  const at = addressOf(value) ?? path;
  if (at !== undefined) return [`${spelled} @ ${at}${marker === "" ? "" : ` ; ${marker}`}`];
  return [`${spelled}${version(textOf(value["version"]) ?? "*")}${marker === "" ? "" : ` ; ${marker}`}`];
}

/** As a line of a requirements file; it begins with `.` or `/` so that pip does not take it for a name. */
export function localPath(path: string, extras: readonly string[] = []): string {
  const plain = /^[./]/.test(path) ? path : `./${path}`;
  return extras.length > 0 ? `${plain}[${extras.join(",")}]` : plain;
}

/** The address of a dependency that does not come from an index: `git` or `url`. */
export function addressOf(value: Table): string | undefined {
  const git = textOf(value["git"]);
  if (git === undefined) return textOf(value["url"]);
  const at = textOf(value["rev"]) ?? textOf(value["tag"]) ?? textOf(value["branch"]) ?? textOf(value["ref"]);
  const folder = textOf(value["subdirectory"]);
  const spelled = /^[\w+.-]+:\/\//.test(git) ? git : git.replace(/^([^@/]+@[^:/]+):/, "ssh://$1/");
  return `${spelled.startsWith("git+") ? "" : "git+"}${spelled}${at === undefined ? "" : `@${at}`}${folder === undefined ? "" : `#subdirectory=${folder}`}`;
}

const MARKERS = [
  "sys_platform",
  "platform_machine",
  "platform_system",
  "os_name",
  "python_version",
  "python_full_version",
];

function markerOf(value: Table, version: (text: string) => string): string {
  const python = version(textOf(value["python"]) ?? "*");
  const parts = [
    textOf(value["markers"]),
    textOf(value["platform"]) && `sys_platform == '${textOf(value["platform"])}'`,
    ...python.split(",").map((part) => part.replace(/^([<>=!~]+)(.+)$/, pythonMarker)),
    ...MARKERS.map((name) => textOf(value[name]) && `${name} ${textOf(value[name])}`),
  ].filter((part) => part !== undefined && part !== "");
  return parts.length > 1 ? parts.map((part) => `(${part})`).join(" and ") : (parts[0] ?? "");
}

/** `python_version` has no third part: 3.10 would be older than 3.10.1 in each 3.10. */
const pythonMarker = (_: string, how: string, version: string): string =>
  `${/^[0-9]+\.[0-9]+\.[0-9]/.test(version) ? "python_full_version" : "python_version"} ${how} '${version}'`;

/** A version specifier of a Pipfile. */
export const pipfileVersion = (text: string): string => (text.trim() === "*" ? "" : text.replaceAll(/\s+/g, ""));

/** The lines of a requirements file without comments; a backslash at the end joins two. */
export const requirementLines = (text: string): string[] =>
  text
    .replaceAll(/\\\r?\n/g, " ")
    .split(/\r?\n/)
    .map((line) => line.replace(/(^|\s)#.*$/, "").trim())
    .filter((line) => line !== "");

/** The dependencies of a script's own block (PEP 723), as TOML; null where it has none. */
export function scriptBlock(text: string): string | null {
  const block = /^\uFEFF?# \/\/\/ script[ \t]*\r?\n((?:#(?: .*)?\r?\n)+?)# \/\/\/[ \t]*$/m.exec(text)?.[1];
  return block === undefined ? null : block.replaceAll(/^# ?/gm, "");
}
