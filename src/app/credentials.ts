// Wires the credential service: the local checks, and the calls to providers and services.

import { askService } from "./credential-checks.ts";
import { pause, type Clock } from "../domain/clock.ts";
import { SvcError } from "../errors/index.ts";
import { readKeyFile } from "../providers/cloudvm/auth.ts";
import { NO_ADDRESS, REMOTE_PROVIDERS } from "../providers/registry.ts";
import { credentialBlockOf, DESCRIPTORS, type RemoteName } from "../providers/descriptors.ts";
import { isService, type CredentialName } from "../schemas/credential-blocks.ts";
import type { CredentialCheck } from "../schemas/credentials.ts";
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
  /** configure() has stored a registry. */
  stored?: () => void;
  log: (line: string) => void;
}

export function credentialDesk(parts: DeskParts): CredentialService {
  return new CredentialService({
    home: parts.home,
    env: parts.env,
    exclusively,
    machinesOf: parts.machinesOf,
    ...(parts.stored === undefined ? {} : { stored: parts.stored }),
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

async function judgeProvider(name: RemoteName, places: Places, block: Record<string, unknown>): Promise<void> {
  const { anchors } = credentialBlockOf(name);
  // An error about the whole of a credential names the field that says where it is.
  const anchor = anchors.find((field) => block[field] !== undefined);
  const { given, sshKeyPath } = about(anchors[0], () => readCredential(name, places));
  if (anchor !== undefined) about(anchor, () => REMOTE_PROVIDERS[name].judge?.(given));
  if (sshKeyPath !== null) {
    const { SSH_AUTH_SOCK: agentSocket } = places.env;
    await loadSshKey({ path: sshKeyPath, home: places.home, ...(agentSocket ? { agentSocket } : {}) }).catch(
      (e: unknown) => {
        throw atField("ssh_key_path", e);
      },
    );
  }
}

async function askProvider(name: RemoteName, places: Places, parts: DeskParts): Promise<CredentialCheck> {
  const { credential, missing } = readCredential(name, places);
  if (!credential) throw new SvcError("credential_missing", { provider: name, missing: missing.join("; ") });
  const provider = REMOTE_PROVIDERS[name].open({
    credential: () => credential,
    baseUrl: baseUrlOf(name, places.env, credential, DESCRIPTORS[name].address ?? NO_ADDRESS),
    publicKey: () => parts.publicKey(name),
    access: () => {
      throw new SvcError("provider_unavailable", { provider: name, why: "a credential is only being checked" });
    },
    now: parts.clock.now,
    pause: (ms, signal) => pause(parts.clock, ms, signal),
  });
  const account = await provider.account?.(AbortSignal.timeout(ASK_MS_MAX));
  // A provider may refuse to rent, and shows that only at an order.
  const doubt = DESCRIPTORS[name].capabilities.bills
    ? ["svc learns only from an order whether it may rent machines"]
    : [];
  return {
    account: account?.name ?? null,
    may: account?.may ?? ["read the account"],
    balance_usd: account?.balanceUsd ?? null,
    warnings: [...(account?.warnings ?? []), ...doubt],
  };
}
