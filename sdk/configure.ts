// The registry: which credentials there are, and where their secrets lie. Secrets themselves never stand in it.

import { SvcError } from "./errors.ts";

export interface Credential {
  cred_id: string;
  provider: string;
  /** `env://NAME`, `file://path`, `store://path`, `literal://value`. */
  secret_ref?: string;
  ssh_key_ref?: string;
  extra?: Record<string, unknown>;
}

export interface Registry {
  credentials?: Credential[];
  tracking?: { tracker?: { secret_ref: string; project: string } };
  integrations?: { hub?: { token_ref: string; cache_dir?: string; enabled?: boolean } };
}

const PROVIDERS = ["local", "podhost", "market", "cloudvm", "notebook"];

/**
 * Checks the registry and the credentials in use. `configure({ registry: {}, use: [] })` is what the local provider needs.
 * What this version cannot use yet is refused, not ignored.
 */
export function configure(settings: { registry?: Registry; use?: string[] } = {}): void {
  known("", settings, ["registry", "use"]);
  const registry = settings.registry ?? {};
  known("registry", registry, ["credentials", "tracking", "integrations"]);
  const ids = new Set<string>();
  for (const [i, c] of list("registry.credentials", registry.credentials).entries()) {
    const at = `registry.credentials[${i}]`;
    known(at, c, ["cred_id", "provider", "secret_ref", "ssh_key_ref", "extra"]);
    const credential = c as Credential;
    if (typeof credential.cred_id !== "string" || credential.cred_id === "")
      throw wrong(`${at}.cred_id`, "is required");
    if (ids.has(credential.cred_id)) throw wrong(`${at}.cred_id`, `${credential.cred_id} is there twice`);
    if (!PROVIDERS.includes(credential.provider))
      throw wrong(`${at}.provider`, `must be one of ${PROVIDERS.join(", ")}`);
    if (credential.secret_ref !== undefined && !/^(env|file|store|literal):\/\/./.test(credential.secret_ref))
      throw wrong(`${at}.secret_ref`, "must begin with env://, file://, store:// or literal://");
    if (credential.provider !== "local")
      throw unavailable(`The credential ${credential.cred_id} for ${credential.provider}`);
    ids.add(credential.cred_id);
  }
  for (const [i, id] of list("use", settings.use).entries())
    if (typeof id !== "string" || !ids.has(id)) throw wrong(`use[${i}]`, `${String(id)} is no cred_id of the registry`);
  if (registry.tracking && Object.keys(registry.tracking).length > 0) throw unavailable("The tracker integration");
  if (registry.integrations?.hub && registry.integrations.hub.enabled !== false)
    throw unavailable("The hub integration");
}

function known(at: string, value: unknown, names: string[]): void {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw wrong(at || "configure", "must be an object");
  for (const name of Object.keys(value))
    if (!names.includes(name)) throw wrong(at ? `${at}.${name}` : name, "is not known");
}

function list(at: string, value: unknown): unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw wrong(at, "must be an array");
  return value;
}

const wrong = (field: string, message: string): SvcError =>
  new SvcError({
    code: "invalid_request",
    message: `${field} ${message}.`,
    hint: "Correct the registry. Nothing was started.",
    status: 400,
    errors: [{ field, message }],
  });

const unavailable = (what: string): SvcError =>
  new SvcError({
    code: "feature_unavailable",
    message: `${what} is not available in this version.`,
    hint: "Leave it out, and use provider `local`. Nothing was started.",
    status: 400,
  });
