// Looking a secret up by its reference. A job may name `env://` and `store://`; what it gets is never written down.

import { SvcError } from "../errors/index.ts";
import { entryOf, readStore, UnusableFile } from "./store-file.ts";

/** @throws `secret_not_found`, which names the reference and never a value. */
export function resolveSecret(reference: string, home: string, env: NodeJS.ProcessEnv): string {
  const [, scheme, path] = /^(env|store):\/\/(.+)$/s.exec(reference) ?? [];
  const fail = (why: string): never => {
    throw new SvcError("secret_not_found", { reference, why });
  };
  if (scheme === undefined || path === undefined) return fail("it is neither env://NAME nor store://path");
  if (scheme === "env") return env[path] || fail(`the environment variable ${path} is not set`);
  const value = path.split("/").reduce<unknown>((at, key) => entryOf(at, key), storeOr(fail, home));
  return typeof value === "string" && value !== "" ? value : fail("the credential store has no such entry");
}

function storeOr(fail: (why: string) => never, home: string): unknown {
  try {
    return readStore(home);
  } catch (e) {
    if (e instanceof UnusableFile) return fail(e.message);
    throw e;
  }
}
