// The registry: the list of credentials, and references to their secrets. It never contains the secrets themselves.
//
// G1. Shapes are checked, and `env://` is read, when `configure` is called: in this process and its environment.
// G2. The next call sends the registry to the control plane of the home, once; the control plane keeps references, and
//     seals values.

import { resolve } from "node:path";
import type { z } from "zod";
import { parseNotifyRule } from "../src/schemas/notify-rule.ts";
import { TARGET_FIELDS, type TargetKind } from "../src/schemas/notify-names.ts";
import { PROVIDER_NAMES } from "../src/providers/descriptors.ts";
import type { NotifyTarget as NotifyTargetSchema } from "../src/schemas/notify.ts";
import type { RegistryBody as RegistryBodySchema } from "../src/schemas/registry.ts";
import type { Client } from "./client.ts";
import { SvcError } from "./errors.ts";
import { withoutTilde } from "../src/platform/user-home.ts";

export interface Credential {
  cred_id: string;
  provider: string;
  /** `env://NAME`, `file://path`, `store://path`, `literal://value`. */
  secret_ref?: string;
  /** Path of an SSH private key. */
  ssh_key_ref?: string;
  /** Settings of the provider: for cloudvm `project`, `zone`, `machine_type`, `ssh_user`; for notebook `host`, `port`, `ssh_user`. */
  extra?: Record<string, unknown>;
}

export interface Registry {
  credentials?: Credential[];
  tracking?: { tracker?: { secret_ref: string; project?: string } };
  integrations?: { hub?: { token_ref?: string; cache_dir?: string; enabled?: boolean } };
  /**
   * Targets of messages, by a name of your choice (`{ phone: { kind: "ntfy", topic: "…" } }`), and rules for all runs such as
   * `loss is nan, stop`. A secret is named by `secret_ref` alone.
   */
  notifications?: { targets?: Record<string, NotifyTarget>; rules?: string[] };
}

/** One target of notifications; its fields are in `docs/reference/notifications.md`. */
export type NotifyTarget = z.input<typeof NotifyTargetSchema>;
export type RegistryBody = z.input<typeof RegistryBodySchema>;

const REFERENCE = /^(env|file|store|literal):\/\/./s;

let named: RegistryBody | null = null;
/** Homes whose control plane has the latest registry. */
const told = new Map<string, RegistryBody>();

/**
 * Sets the registry and the `cred_id`s in use; without `use` all of its credentials are. `configure({ registry: {},
 * use: [] })` is enough for the local provider. Throws an `SvcError` that names the problem or the missing variable;
 * then nothing changed.
 */
export function configure(settings: { registry?: Registry; use?: string[] } = {}): void {
  known("", settings, ["registry", "use"]);
  const registry = settings.registry ?? {};
  known("registry", registry, ["credentials", "tracking", "integrations", "notifications"]);
  const credentials = list("registry.credentials", registry.credentials).map((c, i) =>
    checkedCredential(`registry.credentials[${i}]`, c),
  );
  const twice = credentials.findIndex((c, i) => credentials.findIndex((o) => o.cred_id === c.cred_id) < i);
  if (twice >= 0)
    throw wrong(`registry.credentials[${twice}].cred_id`, `${credentials[twice]?.cred_id ?? ""} is listed twice`);
  const tracker = part("registry.tracking", registry.tracking, "tracker", ["secret_ref", "project"]);
  const hub = part("registry.integrations", registry.integrations, "hub", ["token_ref", "cache_dir", "enabled"]);
  const notifications = checkedNotifications(registry.notifications);
  const values: Record<string, string | null> = {};
  // `part` has verified that the reference is text.
  const used = usedOf(credentials, settings.use);
  named = {
    registry: {
      credentials: used.map(({ ssh_key_ref, secret_ref, ...c }) => ({
        ...(c as { cred_id: string; provider: (typeof PROVIDER_NAMES)[number] }),
        ...(secret_ref === undefined
          ? {}
          : { secret_ref: taken(secret_ref, `credentials.${c.cred_id}`, values, true) }),
        ...(ssh_key_ref === undefined ? {} : { ssh_key_ref: wholePath(ssh_key_ref.replace(/^file:\/\//, "")) }),
      })),
      ...(tracker
        ? {
            tracking: {
              tracker: { ...tracker, secret_ref: taken(tracker["secret_ref"] as string, "tracking.tracker", values) },
            },
          }
        : {}),
      ...(hub
        ? {
            integrations: {
              hub:
                hub["token_ref"] === undefined
                  ? hub
                  : { ...hub, token_ref: taken(hub["token_ref"] as string, "integrations.hub", values) },
            },
          }
        : {}),
      ...(notifications
        ? {
            notifications: {
              ...notifications,
              targets: Object.fromEntries(
                Object.entries(notifications.targets ?? {}).map(([name, target]) => [
                  name,
                  sentTarget(name, target, values),
                ]),
              ),
            },
          }
        : {}),
    },
    use: used.map((c) => c.cred_id),
    values,
  };
}

/** Sends the latest registry to the control plane of a home, unless it already has it. */
export async function tellConfigured(home: string, client: Client): Promise<void> {
  const body = named;
  if (body === null || told.get(home) === body) return;
  await client.configure(body);
  told.set(home, body);
}

function checkedCredential(at: string, value: unknown): Credential {
  known(at, value, ["cred_id", "provider", "secret_ref", "ssh_key_ref", "extra"]);
  const credential = value as Credential;
  for (const name of ["cred_id", "provider"] as const)
    if (typeof credential[name] !== "string" || credential[name] === "") throw wrong(`${at}.${name}`, "is required");
  if (!(PROVIDER_NAMES as readonly string[]).includes(credential.provider))
    throw wrong(`${at}.provider`, `must be one of ${PROVIDER_NAMES.join(", ")}`);
  reference(`${at}.secret_ref`, credential.secret_ref);
  text(`${at}.ssh_key_ref`, credential.ssh_key_ref);
  if (credential.extra !== undefined) {
    known(`${at}.extra`, credential.extra, Object.keys(credential.extra ?? {}));
    finite(`${at}.extra`, credential.extra);
  }
  return credential;
}

function checkedNotifications(value: unknown): Registry["notifications"] {
  if (value === undefined || value === null) return undefined;
  const at = "registry.notifications";
  known(at, value, ["targets", "rules"]);
  const { targets = {}, rules } = value as NonNullable<Registry["notifications"]>;
  known(`${at}.targets`, targets, Object.keys(targets));
  for (const [name, target] of Object.entries(targets)) checkedTarget(`${at}.targets.${name}`, target);
  for (const [i, line] of list(`${at}.rules`, rules).entries()) {
    const rule = typeof line === "string" ? parseNotifyRule(line) : "must be text";
    if (typeof rule === "string") throw wrong(`${at}.rules[${i}]`, rule);
  }
  return value;
}

function checkedTarget(at: string, target: unknown): void {
  known(at, target, Object.keys(target ?? {}));
  const entries = target as Record<string, unknown>;
  const kinds = Object.keys(TARGET_FIELDS);
  const { kind } = entries;
  if (typeof kind !== "string" || !kinds.includes(kind))
    throw wrong(`${at}.kind`, `must be one of ${kinds.join(", ")}`);
  const { needed, others } = TARGET_FIELDS[kind as TargetKind];
  if (entries["secret"] !== undefined)
    throw wrong(`${at}.secret`, "is not taken; name the secret with secret_ref, such as env://NAME");
  known(at, target, ["kind", ...needed, ...others]);
  for (const name of needed) if (entries[name] === undefined) throw wrong(`${at}.${name}`, "is required");
  finite(at, entries);
  reference(`${at}.secret_ref`, entries["secret_ref"]);
}

function sentTarget(name: string, target: NotifyTarget, values: Record<string, string | null>): NotifyTarget {
  if (!("secret_ref" in target) || target.secret_ref === undefined) return target;
  return { ...target, secret_ref: taken(target.secret_ref, `notifications.${name}`, values, true) };
}

function usedOf(credentials: Credential[], use: unknown): Credential[] {
  if (use === undefined) return onePerProvider(credentials, (i) => `registry.credentials[${i}].cred_id`);
  const ids = list("use", use);
  const used = ids.map((id, i) => {
    const credential = credentials.find((c) => c.cred_id === id);
    if (!credential) throw wrong(`use[${i}]`, `${String(id)} is not a cred_id of the registry`);
    return credential;
  });
  return onePerProvider([...new Set(used)], (i) => `use[${i}]`);
}

function onePerProvider(credentials: Credential[], at: (i: number) => string): Credential[] {
  const second = credentials.findIndex((c, i) => credentials.findIndex((o) => o.provider === c.provider) < i);
  if (second < 0) return credentials;
  throw wrong(at(second), `is a second credential of ${credentials[second]?.provider ?? ""}; choose one with \`use\``);
}

/** The reference in the form that is sent; the value of `env://` goes into `values`. */
function taken(ref: string, at: string, values: Record<string, string | null>, required = false): string {
  const [, scheme, rest = ""] = /^(\w+):\/\/(.*)$/s.exec(ref) ?? [];
  if (scheme === "file") return `file://${wholePath(rest)}`;
  if (scheme === "literal")
    process.emitWarning(
      `The program contains the secret of ${at} as literal://. Use env://, file:// or store:// instead.`,
      "SvcWarning",
    );
  if (scheme !== "env") return ref;
  values[at] = process.env[rest] || null;
  if (required && values[at] === null)
    throw new SvcError({
      code: "credential_missing",
      message: `The environment variable ${rest}, which ${at} names, is not set.`,
      hint: "Set it in the environment of this program, or use another secret_ref. Nothing was changed.",
      status: 400,
    });
  return ref;
}

const wholePath = (path: string): string => resolve(withoutTilde(path));

function part(at: string, value: unknown, name: string, names: string[]): Record<string, unknown> | null {
  if (value === undefined || value === null) return null;
  known(at, value, [name]);
  const found = (value as Record<string, unknown>)[name];
  if (found === undefined || found === null) return null;
  known(`${at}.${name}`, found, names);
  const entries = found as Record<string, unknown>;
  if (name === "tracker" && entries["secret_ref"] === undefined) throw wrong(`${at}.${name}.secret_ref`, "is required");
  for (const key of ["secret_ref", "token_ref"]) reference(`${at}.${name}.${key}`, entries[key]);
  for (const key of ["project", "cache_dir"]) text(`${at}.${name}.${key}`, entries[key]);
  if (entries["enabled"] !== undefined && typeof entries["enabled"] !== "boolean")
    throw wrong(`${at}.${name}.enabled`, "must be true or false");
  return entries;
}

/** The value is not shown: a raw secret that was put here by mistake must not reach a screen or a log. */
function reference(at: string, value: unknown): void {
  if (value !== undefined && (typeof value !== "string" || !REFERENCE.test(value)))
    throw wrong(at, "must begin with env://, file://, store:// or literal://");
}

function text(at: string, value: unknown): void {
  if (value !== undefined && typeof value !== "string") throw wrong(at, "must be text");
}

/** JSON would turn NaN and infinities into null, as if the setting were left out. */
function finite(at: string, entries: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(entries))
    if (typeof value === "number" && !Number.isFinite(value)) throw wrong(`${at}.${name}`, "must be a finite number");
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
