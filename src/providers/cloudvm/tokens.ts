// Exchanges a Google credential for a short-lived token with Google's own library, which the first exchange loads.
//
// TOKENS-1. The library composes each request; `ProviderHttp` sends it, with its deadline, size limit and proxy, without redirects.
// TOKENS-2. One exchange at a time, for any number of waiting calls. A token is renewed well before its end, and after a refusal.
// TOKENS-3. A wrong local clock is distinguished from a wrong key: the token address reports its own time in every answer.

import type {
  AwsClientOptions,
  BaseExternalAccountClient,
  IdentityPoolClientOptions,
  OAuth2Client,
  PluggableAuthClientOptions,
} from "google-auth-library";
import { z } from "zod";
import { orAborted } from "../../domain/or-aborted.ts";
import { SvcError } from "../../errors/index.ts";
import { ProviderHttp, type HttpAnswer } from "../http.ts";
import {
  isMetadataHost,
  USER_AGENT,
  type GoogleCredential,
  type OtherCredential,
  type ServiceAccount,
} from "./auth.ts";
import { plainText } from "./wire.ts";

const MACHINES = { whose: "cloudvm", scope: "https://www.googleapis.com/auth/cloud-platform" };
/** The only token address of the library for a key file or a user's login; `Wire` sends to the file's own instead. */
const LIBRARY_TOKEN_URI = "https://oauth2.googleapis.com/token";
const LIFE_SECONDS = 3_600;
const RENEW_EARLY_MS = 5 * 60_000;
const TIMEOUT_MS = 20_000;
const BYTES_MAX = 256 * 1024;
/** The provider tolerates a few minutes; a larger difference justifies a second try with its time. */
const SKEW_MS = 60_000;

interface Token {
  text: string;
  renewAtMs: number;
}

// It becomes a header: only visible characters.
const TokenText = z.string().regex(/^[\x21-\x7e]{1,16384}$/);
/** The error form of a token address, and that of every other address of the provider. */
const Refusal = z.union([
  z.looseObject({ error: z.string(), error_description: z.string().optional().catch(undefined) }),
  z.looseObject({ error: z.looseObject({ message: z.string() }) }),
]);

type Library = typeof import("./google-library.ts");

export class TokenSource {
  readonly #credential: GoogleCredential;
  readonly #now: () => number;
  readonly #use: { whose: string; scope: string };
  #token: Token | null = null;
  #underWay: Promise<Token> | null = null;
  /** How far the provider's clock is ahead of ours, once a wrong clock was found. */
  #aheadMs = 0;

  /** @param use the tokens' purpose; by default machines of `cloudvm`. */
  constructor(credential: GoogleCredential, now: () => number, use: { whose: string; scope: string } = MACHINES) {
    this.#credential = credential;
    this.#now = now;
    this.#use = use;
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
    const library = await import("./google-library.ts");
    const ask = () => library.suppressAdcWarning(() => this.#ask(library));
    let outcome = await ask();
    const { answer } = outcome;
    if (answer?.status === 400 && complaint(answer).kind === "clock") {
      const ahead = Date.parse(answer.headers["date"] ?? "") - this.#now();
      if (Number.isFinite(ahead) && Math.abs(ahead - this.#aheadMs) > SKEW_MS) {
        this.#aheadMs = ahead;
        outcome = await ask();
      }
    }
    if (outcome.token === null) throw this.#refusalOf(outcome);
    const text = TokenText.safeParse(outcome.token);
    if (!text.success) throw this.#odd("its token address answered without a token");
    const lifeMs = outcome.lifeMs > 0 ? outcome.lifeMs : LIFE_SECONDS * 1000;
    this.#token = { text: text.data, renewAtMs: this.#now() + lifeMs - Math.min(RENEW_EARLY_MS, lifeMs / 2) };
    return this.#token;
  }

  /** One exchange with a new client: this class caches the token, not the library. */
  async #ask(library: Library): Promise<Outcome> {
    const wire = new Wire(this.#use.whose, this.#credential.tokenUri);
    const transporter = transporterOf(library, wire);
    const { scope } = this.#use;
    try {
      const client =
        this.#credential.kind === "service_account"
          ? keyClient(library, this.#credential, { scope, transporter, nowMs: this.#now() + this.#aheadMs })
          : otherClient(library, this.#credential.kind, this.#credential.file, { scope, transporter });
      const { token } = await client.getAccessToken();
      const lifeMs = (client.credentials.expiry_date ?? 0) - Date.now();
      return { token: token ?? "", lifeMs, answer: wire.answer, error: null };
    } catch (e) {
      return { token: null, lifeMs: 0, answer: wire.answer, error: wire.failure ?? e };
    }
  }

  #refusalOf({ answer, error }: Outcome): unknown {
    if (error instanceof SvcError) return error;
    const ok = answer !== null && answer.status >= 200 && answer.status < 300;
    if (ok) return this.#odd("its token address answered without a token");
    if (answer !== null) return refusalOf(answer, this.#credential, this.#use.whose);
    const why = plainText(error instanceof Error ? error.message : String(error), 300);
    if (this.#credential.kind === "compute_metadata")
      return new SvcError(
        "credential_missing",
        {
          provider: this.#use.whose,
          missing: `this computer is not a cloud machine with a service account (${why})`,
        },
        { cause: error },
      );
    return new SvcError("credential_refused", { provider: this.#use.whose, why }, { cause: error });
  }

  #odd(why: string): SvcError {
    return new SvcError("provider_error", { provider: this.#use.whose, why });
  }
}

interface Outcome {
  token: string | null;
  lifeMs: number;
  /** The last answer of the exchange. */
  answer: HttpAnswer | null;
  error: unknown;
}

/** Sends the library's requests, and records the outcome of the last one. */
class Wire {
  answer: HttpAnswer | null = null;
  failure: SvcError | null = null;
  readonly #whose: string;
  readonly #tokenUri: string;

  constructor(whose: string, tokenUri: string) {
    this.#whose = whose;
    this.#tokenUri = tokenUri;
  }

  async fetch(asked: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const given = asked instanceof Request ? asked.url : String(asked);
    const url = new URL(given === LIBRARY_TOKEN_URI ? this.#tokenUri : given);
    if (isMetadataHost(url.hostname)) return fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
    try {
      this.answer = await this.#send(url, init);
    } catch (e) {
      if (e instanceof SvcError) this.failure = e;
      throw e;
    }
    const { status, headers, text } = this.answer;
    // The text is already decompressed. The library parses only answers that declare JSON.
    const isJson = this.answer.json() !== undefined;
    const shown = { "content-type": isJson ? "application/json" : "text/plain", date: headers["date"] ?? "" };
    return new Response([204, 205, 304].includes(status) ? null : text, { status, headers: shown });
  }

  #send(url: URL, init: RequestInit): Promise<HttpAnswer> {
    const http = new ProviderHttp({
      provider: this.#whose,
      baseUrl: url.origin,
      timeoutMs: TIMEOUT_MS,
      maxBytes: BYTES_MAX,
      userAgent: USER_AGENT,
    });
    const headers = Object.fromEntries(new Headers(init.headers));
    const body = typeof init.body === "string" || init.body instanceof URLSearchParams ? String(init.body) : null;
    const isForm = /urlencoded/.test(headers["content-type"] ?? "") || init.body instanceof URLSearchParams;
    const isOurs = (name: string): boolean => /^(content-|accept-encoding$|user-agent$|x-goog-api-client$)/.test(name);
    const own = Object.fromEntries(Object.entries(headers).filter(([name]) => !isOurs(name)));
    return http.call({
      method: init.method === "POST" ? "POST" : "GET",
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: own,
      ...(body === null
        ? {}
        : isForm
          ? { form: Object.fromEntries(new URLSearchParams(body)) }
          : { json: JSON.parse(body) }),
    });
  }
}

type Transporter = InstanceType<Library["gaxios"]["Gaxios"]>;
interface ClientParts {
  scope: string;
  transporter: Transporter;
}

/** Sends through `wire` without retries: the caller of the token decides about another try. */
function transporterOf(library: Library, wire: Wire): Transporter {
  const transporter = new library.gaxios.Gaxios({ fetchImplementation: wire.fetch.bind(wire) });
  const request = transporter.request.bind(transporter);
  return Object.assign(transporter, {
    request: (options: Parameters<typeof request>[0]) => {
      const { retryConfig: _, ...once } = options ?? {};
      return request({ ...once, retry: false });
    },
  });
}

function keyClient(library: Library, account: ServiceAccount, parts: ClientParts & { nowMs: number }) {
  const iat = Math.floor(parts.nowMs / 1000);
  return new library.JWT({
    email: account.email,
    key: account.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    scopes: [parts.scope],
    // The file's own token address, and the corrected clock.
    additionalClaims: { aud: account.tokenUri, iat, exp: iat + LIFE_SECONDS },
    transporter: parts.transporter,
  });
}

type File = OtherCredential["file"];
const textIn = (file: File, name: string): string => (typeof file[name] === "string" ? file[name] : "");
const recordIn = (file: File, name: string): File => {
  const value = file[name];
  return typeof value === "object" && value !== null ? { ...value } : {};
};

/** Uses the constructor of the kind that auth.ts checked, never the library's guess. */
function otherClient(
  library: Library,
  kind: GoogleCredential["kind"],
  file: File,
  { scope, transporter }: ClientParts,
): OAuth2Client | BaseExternalAccountClient {
  if (kind === "compute_metadata") return new library.Compute({ scopes: [scope], transporter });
  if (kind === "authorized_user")
    return new library.UserRefreshClient({
      clientId: textIn(file, "client_id"),
      clientSecret: textIn(file, "client_secret"),
      refreshToken: textIn(file, "refresh_token"),
      transporter,
    });
  if (kind === "impersonated_service_account") {
    const url = new URL(textIn(file, "service_account_impersonation_url"));
    const source = recordIn(file, "source_credentials");
    const delegates = file["delegates"];
    return new library.Impersonated({
      sourceClient: otherClient(library, kindOf(source), source, { scope: CLOUD, transporter }),
      targetPrincipal: /\/serviceAccounts\/([^/]+):/.exec(url.pathname)?.[1] ?? "",
      targetScopes: [scope],
      delegates: Array.isArray(delegates) ? delegates.map(String) : [],
      endpoint: url.origin,
      transporter,
    });
  }
  if (kind === "service_account") {
    return new library.JWT({
      email: textIn(file, "client_email"),
      key: textIn(file, "private_key"),
      scopes: [scope],
      transporter,
    });
  }
  const source = recordIn(file, "credential_source");
  // The options have the names of the file's members.
  const options: unknown = { ...file, transporter };
  const client =
    source["environment_id"] !== undefined
      ? new library.AwsClient(options as AwsClientOptions)
      : source["executable"] !== undefined
        ? new library.PluggableAuthClient(options as PluggableAuthClientOptions)
        : new library.IdentityPoolClient(options as IdentityPoolClientOptions);
  client.scopes = [scope];
  // Otherwise the exchange itself uses a transport of its own.
  Object.assign(client["stsCredential"], { transporter });
  return client;
}

/** The scope of an impersonation's source; the impersonated account has the narrower one. */
const CLOUD = MACHINES.scope;
const kindOf = (file: File): GoogleCredential["kind"] => {
  const type = textIn(file, "type");
  return type === "authorized_user" || type === "external_account" ? type : "service_account";
};

const wordsIn = (answer: HttpAnswer): string | null => {
  const refusal = Refusal.safeParse(answer.json());
  if (!refusal.success) return null;
  const { error } = refusal.data;
  if (typeof error !== "string") return plainText(error.message, 300);
  const { error_description: said } = refusal.data as { error_description?: string };
  return plainText(said || error);
};

function complaint(answer: HttpAnswer): { kind: "clock" | "key" | "account" | "other"; text: string } {
  const text = wordsIn(answer) ?? `status ${answer.status}`;
  const kind = /reasonable timeframe|short-lived token|\biat\b|\bexp\b/i.test(text)
    ? "clock"
    : /signature/i.test(text)
      ? "key"
      : /account|email/i.test(text)
        ? "account"
        : "other";
  return { kind, text };
}

/** The key is right, and a later exchange will work: too many requests, for which Google also answers 403, or a fault of its own. */
const isPassing = (answer: HttpAnswer): boolean =>
  answer.status === 408 ||
  answer.status === 429 ||
  answer.status >= 500 ||
  /rate.?limit|too.?many.?requests|resource.?exhausted|quota.{0,3}exceeded/i.test(answer.text);

function refusalOf(answer: HttpAnswer, { kind, email }: GoogleCredential, whose: string): SvcError {
  const said = complaint(answer);
  if (wordsIn(answer) === null || isPassing(answer))
    return new SvcError("provider_error", {
      provider: whose,
      why: `its token address answered with status ${answer.status}${wordsIn(answer) === null ? "" : `: ${said.text}`}`,
    });
  if (kind === "authorized_user") {
    const why = `the default credentials of the user are not accepted any more (${said.text}); run \`gcloud auth application-default login\` again`;
    return new SvcError("credential_refused", { provider: whose, why });
  }
  if (kind !== "service_account")
    return new SvcError("credential_refused", { provider: whose, why: `${email}: ${said.text}` });
  const why = {
    clock: `the clock of this computer is wrong (${said.text}); set it, best by a time server`,
    key: `the key was revoked or is not the one of ${email} (${said.text}); make a new key for it`,
    account: `the service account ${email} does not exist any more (${said.text}); make a new one, and a key for it`,
    other: said.text,
  }[said.kind];
  return new SvcError("credential_refused", { provider: whose, why });
}
