// Reads git's settings for ignoring files, without git (git-config(1)): the path of the user's own rules, and whether
// upper and lower case differ. Understands only the few forms that these settings can have.

import { dirname, isAbsolute, join, resolve } from "node:path";
import { isMissing } from "../../errors/index.ts";
import { IgnoreRules } from "../../domain/gitignore.ts";
import { readNow, type GitDirs } from "./git-layout.ts";
import { knownUserHome } from "../../platform/user-home.ts";

const INCLUDES_DEEP_MAX = 10;

export interface IgnoreSettings {
  /** Absolute. */
  excludesFile: string;
  ignoreCase: boolean;
}

/** A configuration file cannot be read or understood; the message says which. */
export class ConfigUnreadable extends Error {}

/** @param top the top of the work tree and the paths of its parts; null outside of any repository. */
export function ignoreSettings(top: string | null, dirs: GitDirs | null): IgnoreSettings {
  const home = process.env["HOME"] ?? knownUserHome();
  const xdg = process.env["XDG_CONFIG_HOME"];
  const settings = xdg || (home === null ? null : join(home, ".config"));
  const userDir = settings === null ? null : join(settings, "git");
  const ofUser = [
    userDir === null ? [] : join(userDir, "config"),
    home === null ? [] : join(home, ".gitconfig"),
  ].flat();
  const reader = new Reader(home, dirs);
  for (const file of ["/etc/gitconfig", ...ofUser]) reader.read(file);
  if (dirs) {
    reader.read(join(dirs.commonDir, "config"));
    if (isTrue(reader.values.get("extensions.worktreeconfig"))) reader.read(join(dirs.gitDir, "config.worktree"));
  }
  const named = reader.values.get("core.excludesfile");
  const ofDefault = userDir === null ? "" : join(userDir, "ignore");
  return {
    // An empty name turns the default off.
    excludesFile: named === undefined ? ofDefault : named && resolve(top ?? "/", named),
    ignoreCase: isTrue(reader.values.get("core.ignorecase")),
  };
}

const isTrue = (value: string | undefined): boolean => value !== undefined && /^(true|yes|on|1|)$/i.test(value);

class Reader {
  readonly values = new Map<string, string>();
  readonly #home: string | null;
  readonly #dirs: GitDirs | null;

  constructor(home: string | null, dirs: GitDirs | null) {
    this.#home = home;
    this.#dirs = dirs;
  }

  read(file: string, depth = 0): void {
    if (depth > INCLUDES_DEEP_MAX) throw new ConfigUnreadable(`${file} includes itself`);
    let text;
    try {
      text = readNow(file);
    } catch (cause) {
      if (isMissing(cause)) return;
      throw new ConfigUnreadable(`${file} cannot be read`, { cause });
    }
    for (const { key, value } of settingsOf(text)) {
      const path = this.#path(value, dirname(file));
      if (key === "include.path" || (key.startsWith("includeif.") && this.#holds(key, file)))
        this.read(path, depth + 1);
      else if (key === "core.excludesfile") this.values.set(key, value === "" ? "" : this.#home_(value));
      else if (!key.startsWith("includeif.")) this.values.set(key, value);
    }
  }

  #home_(value: string): string {
    if (!value.startsWith("~/")) return value;
    if (this.#home === null) throw new ConfigUnreadable(`a git configuration names ${value}, and HOME is not set`);
    return join(this.#home, value.slice(2));
  }
  #path(value: string, beside: string): string {
    const path = this.#home_(value);
    return isAbsolute(path) ? path : join(beside, path);
  }

  /** `includeif.gitdir:~/work/.path` and similar conditions. */
  #holds(key: string, file: string): boolean {
    const [, kind = "", given = ""] = /^includeif\.(gitdir|gitdir\/i|onbranch):(.*)\.path$/s.exec(key) ?? [];
    if (this.#dirs === null || kind === "") return false;
    if (kind === "onbranch") {
      const branch = /^ref: refs\/heads\/(.+)$/m.exec(readNow(join(this.#dirs.gitDir, "HEAD")))?.[1];
      return branch !== undefined && matches(given.endsWith("/") ? `${given}**` : given, branch, false);
    }
    let glob = this.#home_(given);
    if (glob.startsWith("./")) glob = join(dirname(file), glob.slice(2)) + (glob.endsWith("/") ? "/" : "");
    else if (!isAbsolute(glob)) glob = `**/${glob}`;
    if (glob.endsWith("/")) glob += "**";
    return matches(glob, this.#dirs.gitDir, kind === "gitdir/i");
  }
}

/** Matches a whole path as git does: by the rules of ignore files, anchored. */
const matches = (glob: string, text: string, ignoreCase: boolean): boolean =>
  new IgnoreRules(`/${glob.replace(/^\//, "")}`, ignoreCase).decide(text.replace(/^\//, ""), false) === true;

/** The settings of a file in order; names are in lower case except inside quotes. */
function* settingsOf(text: string): Generator<{ key: string; value: string }> {
  let section = "";
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
  for (let i = 0; i < lines.length; i++) {
    let line = (lines[i] ?? "").trim();
    const head = /^\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]/.exec(line);
    if (head) {
      const [whole, name = "", sub] = head;
      section = name.toLowerCase() + (sub === undefined ? "" : `.${sub.replace(/\\(.)/g, "$1")}`);
      line = line.slice(whole.length).trim();
    }
    if (line === "" || line.startsWith("#") || line.startsWith(";")) continue;
    while (/(^|[^\\])(\\\\)*\\$/.test(line) && i + 1 < lines.length) line = line.slice(0, -1) + (lines[++i] ?? "");
    const [, name = "", raw] = /^([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?$/s.exec(line) ?? [];
    if (name !== "")
      yield { key: `${section}.${name.toLowerCase()}`, value: raw === undefined ? "true" : valueOf(raw) };
  }
}

/** The value without quotes, comments and blanks at its ends. */
function valueOf(raw: string): string {
  let value = "";
  let quoted = false;
  let keep = 0;
  const text = raw.trimStart();
  for (let i = 0; i < text.length; i++) {
    const c = text[i] ?? "";
    if (c === '"') {
      quoted = !quoted;
      keep = value.length;
    } else if (c === "\\") {
      const next = text[++i] ?? "";
      value += { n: "\n", t: "\t", b: "\b" }[next] ?? next;
      keep = value.length;
    } else if (!quoted && (c === "#" || c === ";")) break;
    else {
      value += c;
      if (quoted || !/\s/.test(c)) keep = value.length;
    }
  }
  return value.slice(0, keep);
}
