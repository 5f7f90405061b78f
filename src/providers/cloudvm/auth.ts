// Exchanges the key file of a service account for a short-lived token.
//
// A1. The private key signs and stays here; only an assertion is sent, valid for an hour, and only to the file's own
//     token address, over https or to this computer itself.
// A2. One exchange at a time, for any number of waiting calls. A token is renewed well before its end, and after a
//     refusal.
// A3. A wrong local clock is distinguished from a wrong key: the token address reports its own time in every answer.

import { createPrivateKey, sign, type KeyObject } from "node:crypto";
import { z } from "zod";
import { orAborted } from "../../domain/or-aborted.ts";
import { SvcError } from "../../errors/index.ts";
import { keepsSecrets } from "../../schemas/address.ts";
import { ProviderHttp, type HttpAnswer } from "../http.ts";
import { plainText } from "./wire.ts";

const PROVIDER = "cloudvm";
const GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const MACHINES = { whose: PROVIDER, scope: "https://www.googleapis.com/auth/cloud-platform" };
const DEFAULT_TOKEN_URI = "https://oauth2.googleapis.com/token";
const ASSERTION_SECONDS = 3_600;
const RENEW_EARLY_MS = 5 * 60_000;
const TIMEOUT_MS = 20_000;
/** The provider tolerates a few minutes; a larger difference justifies a second try with its time. */
const SKEW_MS = 60_000;
export const USER_AGENT = "svc";

export interface ServiceAccount {
  email: string;
  project: string | null;
  keyId: string | null;
  tokenUri: string;
  privateKey: KeyObject;
}

const KeyFile = z.looseObject({
  type: z.string().optional(),
  client_email: z.string().optional(),
  private_key: z.string().optional(),
  private_key_id: z.string().optional(),
  project_id: z.string().optional(),
  token_uri: z.string().optional(),
});

const HOW =
  "make one in the provider's console under IAM, Service accounts, Keys, Add key, JSON, and give the whole file as service_account_json";

/**
 * Parses and checks the key file. Throws `credential_missing` if it is malformed, `credential_refused` if it must not
 * be used.
 * @param whose the key's purpose, as text for an error.
 */
export function readKeyFile(secret: string, whose: string = PROVIDER): ServiceAccount {
  const unusable = (why: string): SvcError =>
    new SvcError("credential_missing", { provider: whose, missing: `${why}; ${HOW}` });
  if (secret.trim() === "") throw unusable("service_account_json is not set");
  let parsed: unknown;
  try {
    // Some editors add a byte order mark.
    parsed = JSON.parse(secret.replace(/^\uFEFF/, ""));
  } catch {
    throw unusable("service_account_json is not JSON");
  }
  const file = KeyFile.safeParse(parsed);
  if (!file.success) throw unusable("service_account_json is not the key file of a service account");
  const { type, client_email, private_key, private_key_id, project_id, token_uri } = file.data;
  if (type !== undefined && type !== "service_account")
    throw unusable(`service_account_json is of type ${plainText(type, 40)}, not the key file of a service account`);
  const lacking = Object.entries({ client_email, private_key }).flatMap(([name, value]) => (value ? [] : [name]));
  if (!client_email || !private_key) throw unusable(`service_account_json has no ${lacking.join(" and no ")}`);
  if (!/^[^\s@]{1,200}@[^\s@]{1,200}$/.test(client_email))
    throw unusable("client_email of service_account_json is no address");
  return {
    email: client_email,
    project: project_id || null,
    keyId: private_key_id || null,
    tokenUri: safeTokenUri(token_uri || DEFAULT_TOKEN_URI, whose),
    privateKey: readPrivateKey(private_key, unusable),
  };
}

function readPrivateKey(pem: string, unusable: (why: string) => SvcError): KeyObject {
  let key: KeyObject;
  try {
    // A shell or a form may have escaped the line ends twice.
    key = createPrivateKey(pem.includes("\n") ? pem : pem.replaceAll("\\n", "\n"));
  } catch {
    throw unusable("private_key of service_account_json cannot be read, perhaps because it was cut or changed");
  }
  if (key.asymmetricKeyType !== "rsa") throw unusable("private_key of service_account_json is not an RSA key");
  return key;
}

function safeTokenUri(text: string, whose: string): string {
  const refuse = (why: string): SvcError =>
    new SvcError("credential_refused", { provider: whose, why: `token_uri of service_account_json ${why}` });
  if (!URL.canParse(text)) throw refuse("is not a URL");
  const url = new URL(text);
  if (url.username !== "" || url.password !== "") throw refuse("holds a user or a password");
  if (!keepsSecrets(url)) throw refuse("must begin with https:// (only this computer itself may be asked without)");
  return text;
}

interface Token {
  text: string;
  renewAtMs: number;
}

const TokenAnswer = z.looseObject({
  // It becomes a header: only visible characters.
  access_token: z.string().regex(/^[\x21-\x7e]{1,16384}$/),
  expires_in: z.coerce.number().positive().catch(ASSERTION_SECONDS),
});
const Refusal = z.looseObject({ error: z.string(), error_description: z.string().optional().catch(undefined) });

export class TokenSource {
  readonly #account: ServiceAccount;
  readonly #now: () => number;
  readonly #use: { whose: string; scope: string };
  readonly #http: ProviderHttp;
  #token: Token | null = null;
  #underWay: Promise<Token> | null = null;
  /** How far the provider's clock is ahead of ours, once a wrong clock was found. */
  #aheadMs = 0;

  /** @param use the tokens' purpose; by default machines of `cloudvm`. */
  constructor(account: ServiceAccount, now: () => number, use: { whose: string; scope: string } = MACHINES) {
    this.#account = account;
    this.#now = now;
    this.#use = use;
    this.#http = new ProviderHttp({
      provider: use.whose,
      baseUrl: new URL(account.tokenUri).origin,
      timeoutMs: TIMEOUT_MS,
      maxBytes: 256 * 1024,
      userAgent: USER_AGENT,
    });
  }

  /** A valid token. Throws `credential_refused`, `provider_unreachable`, `provider_error`. */
  async token(signal?: AbortSignal): Promise<string> {
    signal?.throwIfAborted();
    if (this.#token !== null && this.#now() < this.#token.renewAtMs) return this.#token.text;
    // Shared by all waiting callers, so that an abort of one of them must not end it.
    this.#underWay ??= this.#exchange().finally(() => (this.#underWay = null));
    const token = await orAborted(this.#underWay, signal);
    return token.text;
  }

  /** The API refused this token: the next call makes another. */
  refused(token: string): void {
    if (this.#token?.text === token) this.#token = null;
  }

  async #exchange(): Promise<Token> {
    let answer = await this.#ask();
    if (answer.status === 400 && complaint(answer).kind === "clock") {
      const ahead = Date.parse(answer.headers["date"] ?? "") - this.#now();
      if (Number.isFinite(ahead) && Math.abs(ahead - this.#aheadMs) > SKEW_MS) {
        this.#aheadMs = ahead;
        answer = await this.#ask();
      }
    }
    if (answer.status !== 200) throw refusalOf(answer, this.#account.email, this.#use.whose);
    const token = TokenAnswer.safeParse(answer.json());
    if (!token.success)
      throw new SvcError("provider_error", {
        provider: this.#use.whose,
        why: "its token address answered without a token",
      });
    const lifeMs = token.data.expires_in * 1000;
    this.#token = {
      text: token.data.access_token,
      renewAtMs: this.#now() + lifeMs - Math.min(RENEW_EARLY_MS, lifeMs / 2),
    };
    return this.#token;
  }

  #ask(): Promise<HttpAnswer> {
    const url = new URL(this.#account.tokenUri);
    return this.#http.call({
      method: "POST",
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      form: { grant_type: GRANT, assertion: assertion(this.#account, this.#use.scope, this.#now() + this.#aheadMs) },
    });
  }
}

function assertion(account: ServiceAccount, scope: string, nowMs: number): string {
  const iat = Math.floor(nowMs / 1000);
  const header = { alg: "RS256", typ: "JWT", ...(account.keyId === null ? {} : { kid: account.keyId }) };
  const claims = { iss: account.email, scope, aud: account.tokenUri, iat, exp: iat + ASSERTION_SECONDS };
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${part(header)}.${part(claims)}`;
  return `${signed}.${sign("RSA-SHA256", Buffer.from(signed), account.privateKey).toString("base64url")}`;
}

function complaint(answer: HttpAnswer): { kind: "clock" | "key" | "account" | "other"; text: string } {
  const refusal = Refusal.safeParse(answer.json());
  const text = refusal.success
    ? plainText(refusal.data.error_description || refusal.data.error)
    : `status ${answer.status}`;
  const kind = /reasonable timeframe|short-lived token|\biat\b|\bexp\b/i.test(text)
    ? "clock"
    : /signature/i.test(text)
      ? "key"
      : /account|email/i.test(text)
        ? "account"
        : "other";
  return { kind, text };
}

function refusalOf(answer: HttpAnswer, email: string, whose: string): SvcError {
  const { kind, text } = complaint(answer);
  const json = Refusal.safeParse(answer.json()).success;
  if (!json || answer.status === 429 || answer.status >= 500)
    return new SvcError("provider_error", {
      provider: whose,
      why: `its token address answered with status ${answer.status}${json ? `: ${text}` : ""}`,
    });
  const why = {
    clock: `the clock of this computer is wrong (${text}); set it, best by a time server`,
    key: `the key was revoked or is not the one of ${email} (${text}); make a new key for it`,
    account: `the service account ${email} does not exist any more (${text}); make a new one, and a key for it`,
    other: text,
  }[kind];
  return new SvcError("credential_refused", { provider: whose, why });
}
