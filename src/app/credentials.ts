// Wires the credential service: the local checks, and the calls to providers and services.

import { greets, askService } from "./credential-checks.ts";
import { pause, type Clock } from "../domain/clock.ts";
import { SvcError } from "../errors/index.ts";
import { readKeyFile } from "../providers/cloudvm/auth.ts";
import { endpointIn } from "../providers/notebook/provider.ts";
import { REMOTE_PROVIDERS, VENDOR_ADDRESS } from "../providers/registry.ts";
import type { RemoteName } from "../schemas/provider-names.ts";
import { isService, type CredentialCheck, type CredentialName } from "../schemas/credentials.ts";
import { baseUrlOf, readCredential } from "../secrets/credentials.ts";
import { CredentialService } from "../secrets/credential-service.ts";
import { blockIn } from "../secrets/store-file.ts";
import { storeOf, type Places } from "../secrets/read-credential.ts";
import { readHub, readObjstore, readTracker } from "../secrets/services.ts";
import { loadSshKey } from "../ssh/keys.ts";
import { exclusively } from "../store/file-lock.ts";

const ASK_MS_MAX = 60_000;

export interface DeskParts extends Places {
  clock: Clock;
  publicKey: (provider: RemoteName) => Promise<string>;
  machinesOf: (provider: string) => number;
  log: (line: string) => void;
}

export function credentialDesk(parts: DeskParts): CredentialService {
  return new CredentialService({
    home: parts.home,
    env: parts.env,
    exclusively,
    machinesOf: parts.machinesOf,
    warn: parts.log,
    judge,
    ask: (name, places) => (isService(name) ? askService(name, places) : askProvider(name, places, parts)),
  });
}

/** Attributes an error to the field that it concerns. */
function about<T>(field: string, look: () => T): T {
  try {
    return look();
  } catch (e) {
    throw atField(field, e);
  }
}

function atField(field: string, e: unknown): unknown {
  if (!(e instanceof SvcError)) return e;
  const { data } = e as SvcError<"credential_missing">;
  const message = e.code === "credential_missing" ? data.missing : e.message;
  return new SvcError(
    "invalid_request",
    { summary: `The credential is not valid: ${message}.` },
    { cause: e, errors: [{ field, message }] },
  );
}

async function judge(name: CredentialName, places: Places): Promise<void> {
  const block = blockIn(storeOf(places), name) as Record<string, unknown> | undefined;
  const url = typeof block?.["url"] === "string" ? { settings: { url: block["url"] } } : null;
  about("url", () => baseUrlOf(name, {}, url, "https://vendor.example"));
  if (name === "hub") return void about("token", () => readHub(places));
  if (name === "tracker") return void about("api_key", () => readTracker(places));
  if (name === "objstore_a") return void about("secret_access_key", () => readObjstore(name, places));
  if (name === "objstore_b") {
    return about("service_account_json", () => {
      const { serviceAccountJson } = readObjstore(name, places);
      if (serviceAccountJson !== null) readKeyFile(serviceAccountJson);
    });
  }
  await judgeProvider(name, places, block ?? {});
}

/** The field to name if a provider's credential is wrong as a whole. */
const ANCHOR: Readonly<Record<RemoteName, string>> = {
  podhost: "api_key",
  market: "api_key",
  cloudvm: "service_account_json",
  notebook: "endpoint",
};

async function judgeProvider(name: RemoteName, places: Places, block: Record<string, unknown>): Promise<void> {
  const anchor = ANCHOR[name];
  const { credential, sshKeyPath } = about(anchor, () => readCredential(name, places));
  if (name === "cloudvm" && credential) about(anchor, () => readKeyFile(credential.secret));
  if (name === "cloudvm" && !credential && block[anchor] !== undefined) {
    // The block may be incomplete; the key file itself can be checked anyway.
    const whole = { ...block, project: block["project"] ?? "p", zone: block["zone"] ?? "z" };
    const reading = readCredential(name, { ...places, store: { providers: { cloudvm: whole } } });
    about(anchor, () => readKeyFile(reading.credential?.secret ?? ""));
  }
  if (name === "notebook") {
    const where = ["endpoint", "host", "proxy_command"].find((field) => block[field] !== undefined);
    if (where !== undefined) about(where, () => endpointIn({ secret: "", settings: settingsOf(block) }));
  }
  if (sshKeyPath !== null) {
    const { SSH_AUTH_SOCK: agentSocket } = places.env;
    await loadSshKey({ path: sshKeyPath, home: places.home, ...(agentSocket ? { agentSocket } : {}) }).catch(
      (e: unknown) => {
        throw atField("ssh_key_path", e);
      },
    );
  }
}

const settingsOf = (block: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(block).flatMap(([k, v]) => (typeof v === "string" || typeof v === "number" ? [[k, String(v)]] : [])),
  );

async function askProvider(name: RemoteName, places: Places, parts: DeskParts): Promise<CredentialCheck> {
  const { credential, missing } = readCredential(name, places);
  if (!credential) throw new SvcError("credential_missing", { provider: name, missing: missing.join("; ") });
  if (name === "notebook") return askNotebook(credential);
  const provider = REMOTE_PROVIDERS[name]({
    credential: () => credential,
    baseUrl: baseUrlOf(name, places.env, credential, VENDOR_ADDRESS[name]),
    publicKey: () => parts.publicKey(name),
    access: () => {
      throw new SvcError("provider_unavailable", { provider: name, why: "a credential is only being checked" });
    },
    now: parts.clock.now,
    pause: (ms, signal) => pause(parts.clock, ms, signal),
  });
  const account = await provider.account?.(AbortSignal.timeout(ASK_MS_MAX));
  const warnings = [...(account?.warnings ?? []), "whether it may rent machines shows only when one is rented"];
  return {
    account: account?.name ?? null,
    may: ["read the account"],
    balance_usd: account?.balanceUsd ?? null,
    warnings,
  };
}

async function askNotebook(credential: { settings: Record<string, string> }): Promise<CredentialCheck> {
  const { proxyCommand, ...way } = endpointIn({ secret: "", settings: credential.settings });
  const account = `${way.user}@${way.host}:${way.port}`;
  if (proxyCommand !== undefined) {
    const warnings = ["the way in is a command, which is run only for a run"];
    return { account, may: [], balance_usd: null, warnings };
  }
  await greets(way);
  return { account, may: ["reach its SSH server"], balance_usd: 0, warnings: [] };
}
