// Maps the name of a file to its language. A module of its own, so that the highlighter is loaded only for known languages.

const BY_ENDING = {
  py: "python",
  pyi: "python",
  sh: "bash",
  bash: "bash",
  yaml: "yaml",
  yml: "yaml",
  json: "json",
  ipynb: "json",
  toml: "ini",
  ini: "ini",
  cfg: "ini",
  md: "markdown",
  dockerfile: "dockerfile",
  cu: "cpp",
  cpp: "cpp",
  h: "cpp",
} as const;

export type Language = (typeof BY_ENDING)[keyof typeof BY_ENDING];

/** Null where it is none of the few that training code is made of. */
export function languageOf(path: string): Language | null {
  const ending = /[^/.]+$/.exec(path.toLowerCase())?.[0] ?? "";
  return Object.hasOwn(BY_ENDING, ending) ? BY_ENDING[ending as keyof typeof BY_ENDING] : null;
}
