// Resolves a secret by its reference. The value is never stored here.
//
// S1. A job may use only `env://` and `store://`: `file://` would let anyone who may submit a run read any file of the
//     owner.
// S2. The owner's registry may use all four.
// S3. Errors name the reference and never a value; for a literal not even a part of its text.

import { isAbsolute } from "node:path";
import { SvcError } from "../errors/index.ts";
import { storedEntry, readPlainFile, readStore, UnusableFile } from "./store-file.ts";
import { withoutTilde } from "../platform/user-home.ts";

const FILE_BYTES_MAX = 64 * 1024;

/** For a job. @throws `secret_not_found`, which names the reference and never a value. */
export function resolveSecret(reference: string, home: string, env: NodeJS.ProcessEnv): string {
  const [, scheme, path] = /^(env|store):\/\/(.+)$/s.exec(reference) ?? [];
  if (scheme === undefined || path === undefined)
    return notFound(reference, "it is neither env://NAME nor store://path");
  return scheme === "env" ? fromEnvironment(reference, path, env) : fromStore(reference, path, home);
}

/** For the owner's registry. @throws `secret_not_found` */
export function resolveOwnersSecret(reference: string, home: string, env: NodeJS.ProcessEnv): string {
  const [, scheme, rest = ""] = /^(file|literal):\/\/(.*)$/s.exec(reference) ?? [];
  if (scheme === "literal") return rest || notFound("literal://", "it holds nothing");
  return scheme === "file" ? fromFile(reference, rest, env) : resolveSecret(reference, home, env);
}

function notFound(reference: string, why: string): never {
  throw new SvcError("secret_not_found", { reference, why });
}

const fromEnvironment = (reference: string, name: string, env: NodeJS.ProcessEnv): string =>
  env[name] || notFound(reference, `the environment variable ${name} is not set`);

function fromStore(reference: string, path: string, home: string): string {
  const value = path.split("/").reduce<unknown>(
    (at, key) => storedEntry(at, key),
    usable(reference, () => readStore(home)),
  );
  return typeof value === "string" && value !== ""
    ? value
    : notFound(reference, "the credential store has no such entry");
}

/** The file's text without leading and trailing blanks and line breaks. */
function fromFile(reference: string, given: string, env: NodeJS.ProcessEnv): string {
  const file = withoutTilde(given, env);
  if (!isAbsolute(file)) return notFound(reference, "it must name a whole path, as in file:///home/me/key");
  const text = usable(reference, () => readPlainFile(file, { bytesMax: FILE_BYTES_MAX, ownersAlone: false }));
  if (text === null) return notFound(reference, "there is no such file");
  return text.trim() || notFound(reference, "the file is empty");
}

function usable<T>(reference: string, read: () => T): T {
  try {
    return read();
  } catch (e) {
    if (e instanceof UnusableFile) return notFound(reference, e.message);
    throw e;
  }
}
