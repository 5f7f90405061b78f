// Tokens for objstore_b: from a service account's key file, or from the default credentials of a user.

import { z } from "zod";
import { jsonOf } from "../domain/parsed-lines.ts";
import { SvcError } from "../errors/index.ts";
import { readKeyFile, TokenSource, USER_AGENT } from "../providers/cloudvm/auth.ts";
import { ProviderHttp } from "../providers/http.ts";

const WHOSE = "objstore_b";
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write";
const TOKEN_URI = "https://oauth2.googleapis.com/token";
const RENEW_EARLY_MS = 5 * 60_000;

export interface Tokens {
  token(signal: AbortSignal): Promise<string>;
  /** The store refused the token: the next call makes another. */
  refused(token: string): void;
}

/** Throws `credential_missing` and `credential_refused` if the file cannot be used. */
export function tokensFrom(keyFile: string, now: () => number): Tokens {
  const user = UserFile.safeParse(jsonOf(keyFile));
  if (user.success) return new UserTokens(user.data, now);
  return new TokenSource(readKeyFile(keyFile, WHOSE), now, { whose: WHOSE, scope: SCOPE });
}

const UserFile = z.looseObject({
  type: z.literal("authorized_user"),
  client_id: z.string(),
  client_secret: z.string(),
  refresh_token: z.string(),
  token_uri: z.string().default(TOKEN_URI),
});
const Answer = z.looseObject({
  access_token: z.string().regex(/^[\x21-\x7e]{1,16384}$/),
  expires_in: z.coerce.number().positive().catch(3_600),
});

/** The file that `gcloud auth application-default login` writes: a refresh token of the user. */
class UserTokens implements Tokens {
  readonly #file: z.infer<typeof UserFile>;
  readonly #now: () => number;
  readonly #http: ProviderHttp;
  #token: { text: string; renewAtMs: number } | null = null;

  constructor(file: z.infer<typeof UserFile>, now: () => number) {
    this.#file = file;
    this.#now = now;
    const baseUrl = URL.canParse(file.token_uri) ? new URL(file.token_uri).origin : file.token_uri;
    this.#http = new ProviderHttp({
      provider: WHOSE,
      baseUrl,
      timeoutMs: 20_000,
      maxBytes: 256 * 1024,
      userAgent: USER_AGENT,
    });
  }

  async token(signal: AbortSignal): Promise<string> {
    if (this.#token !== null && this.#now() < this.#token.renewAtMs) return this.#token.text;
    const { client_id, client_secret, refresh_token, token_uri } = this.#file;
    const form = { grant_type: "refresh_token", client_id, client_secret, refresh_token };
    const answer = await this.#http.call({ method: "POST", path: new URL(token_uri).pathname, form, signal });
    const parsed = Answer.safeParse(answer.json());
    if (answer.status === 400 || answer.status === 401)
      throw new SvcError("credential_refused", {
        provider: WHOSE,
        why: "the default credentials of the user are not accepted any more; run `gcloud auth application-default login` again",
      });
    if (answer.status !== 200 || !parsed.success)
      throw new SvcError("provider_error", {
        provider: WHOSE,
        why: `its token address answered with status ${answer.status}`,
      });
    const lifeMs = parsed.data.expires_in * 1_000;
    const renewAtMs = this.#now() + lifeMs - Math.min(RENEW_EARLY_MS, lifeMs / 2);
    this.#token = { text: parsed.data.access_token, renewAtMs };
    return this.#token.text;
  }

  refused(token: string): void {
    if (this.#token?.text === token) this.#token = null;
  }
}
