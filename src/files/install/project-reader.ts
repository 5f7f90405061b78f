// Reads the files of a project for the rules of installing, from its directory or from its snapshot.

import { constants, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, TomlError } from "smol-toml";
import type { Table } from "../../domain/requirements.ts";
import { addressPasswords, withoutPasswords } from "../../domain/secret-names.ts";
import { SvcError } from "../../errors/index.ts";
import type { CodeSnapshot } from "../../schemas/job.ts";
import { readContent } from "../code/contents.ts";

/** The files of a project, from either source. */
export interface ProjectReader {
  paths: ReadonlySet<string>;
  read(path: string): Promise<Buffer>;
}

/** A project in its directory. */
export const directoryReader = (root: string, files: readonly { path: string }[]): ProjectReader => ({
  paths: new Set(files.map(({ path }) => path)),
  // NONBLOCK: a pipe in place of a file must not block.
  read: (path) => readFile(join(root, path), { flag: constants.O_RDONLY | constants.O_NONBLOCK }),
});

/** Reads a project from its snapshot. */
export function snapshotReader(codeDir: string, snapshot: CodeSnapshot): ProjectReader {
  const files = new Map(snapshot.files.map((file) => [file.path, file]));
  return {
    paths: new Set(files.keys()),
    read: async (path) => {
      const file = files.get(path);
      if (file === undefined) throw installRefused(path, "is not among the files that are sent");
      return readContent(codeDir, snapshot.id, file);
    },
  };
}

/** The reason may quote a line with the address of a package index, and its password. */
export const installRefused = (what: string, why: string, cause?: unknown): SvcError =>
  new SvcError("install_refused", { what, why: withoutPasswords(why) }, { cause });

/** Collects the passwords in the addresses of every file that is read through it, such as those of package indexes. */
export function hearingPasswords(project: ProjectReader): ProjectReader & { passwords: ReadonlySet<string> } {
  const passwords = new Set<string>();
  const read = async (path: string): Promise<Buffer> => {
    const bytes = await project.read(path);
    // UTF-16 of ASCII is ASCII between zeros.
    const text = bytes.includes(0) ? bytes.toString("latin1").replaceAll("\0", "") : bytes.toString();
    for (const password of addressPasswords(text)) passwords.add(password);
    return bytes;
  };
  return { paths: project.paths, read, passwords };
}

/** The refusal of a file that another one names. */
export const notSent = (from: string, name: string): SvcError =>
  installRefused(from, `names ${name}, which is not among the files that are sent`);

/** The text of a file that pip will read. Throws `install_refused` if pip could not read it. */
export function textFor(path: string, bytes: Buffer): string {
  const [first, second] = [bytes[0], bytes[1]];
  if (first === 0xff && second === 0xfe) return bytes.subarray(2).toString("utf16le");
  if (first === 0xfe && second === 0xff) return Buffer.from(bytes.subarray(2)).swap16().toString("utf16le");
  if (/^#.*coding[:=][ \t]*[-\w.]+/m.test(bytes.subarray(0, 200).toString("latin1"))) return bytes.toString("latin1");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw installRefused(path, "is not UTF-8: save it as UTF-8", cause);
  }
}

/** A parsed TOML file. Throws `install_refused` with the line number if it is invalid. */
export async function tomlOf(project: ProjectReader, path: string): Promise<Table> {
  const text = textFor(path, await project.read(path)).replace(/^\uFEFF/, "");
  try {
    return parse(text);
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    const why = cause.message.split("\n")[0]?.replace(/^Invalid TOML document: /, "") ?? "";
    throw installRefused(path, `is not valid TOML: line ${cause.line}, ${why}`, cause);
  }
}
