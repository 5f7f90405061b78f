// Looking a secret up by its reference. A job may name `env://` and `store://`; what it gets is never written down.

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { SvcError } from "../errors/index.ts";

const STORE_BYTES_MAX = 1024 * 1024;

/** @throws `secret_not_found`, which names the reference and never a value. */
export function resolveSecret(reference: string, home: string, env: NodeJS.ProcessEnv): string {
  const [, scheme, path] = /^(env|store):\/\/(.+)$/s.exec(reference) ?? [];
  const fail = (why: string): never => {
    throw new SvcError("secret_not_found", { reference, why });
  };
  if (scheme === undefined || path === undefined) return fail("it is neither env://NAME nor store://path");
  if (scheme === "env") return env[path] || fail(`the environment variable ${path} is not set`);
  const value = path
    .split("/")
    .reduce<unknown>((at, key) => (isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined), readStore(home));
  return typeof value === "string" && value !== "" ? value : fail("the credential store has no such entry");
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

function readStore(home: string): unknown {
  const file = join(home, "credentials.json");
  try {
    if (statSync(file).size > STORE_BYTES_MAX) return {};
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    // A missing or broken store holds no secret: the caller says which one it wanted.
    return {};
  }
}

/** Hub and tracker variables for a run, under our names and those that the real libraries read; nothing where nothing is set. */
export function injectedVariables(env: NodeJS.ProcessEnv): Record<string, string> {
  const out: Record<string, string> = {};
  const hub = env["HUB_TOKEN"]?.trim() || env["HUB_ACCESS_TOKEN"]?.trim();
  if (hub) for (const name of ["HUB_TOKEN", "HUB_ACCESS_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]) out[name] = hub;
  const tracker = env["TRACKER_API_KEY"]?.trim();
  if (tracker) for (const name of ["TRACKER_API_KEY", "WANDB_API_KEY"]) out[name] = tracker;
  return out;
}
