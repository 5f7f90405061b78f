// The token endpoint of the simulated cloud: exchanges a signed assertion for an opaque short-lived token.

import { createPublicKey, generateKeyPairSync, randomBytes, verify } from "node:crypto";

const GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const SCOPES = /^https:\/\/www\.googleapis\.com\/auth\/[a-z.-]+$/;
const SKEW_S = 300;

export interface TokenAnswer {
  status: number;
  body: Record<string, unknown>;
}

export class TokenDesk {
  /** Lifetime of a token in seconds; tests shorten it. */
  tokenS = 3_600;
  /** Number of tokens that were made. */
  issued = 0;

  readonly email: string;
  readonly keyId = randomBytes(20).toString("hex");
  readonly privateKey: string;
  readonly #publicKey: string;
  readonly #tokens = new Map<string, number>();
  readonly #now: () => number;
  #revoked = false;

  constructor(project: string, now: () => number) {
    this.email = `runs@${project}.iam.gserviceaccount.com`;
    this.#now = now;
    const pair = generateKeyPairSync("rsa", {
      modulusLength: 2048,
      publicKeyEncoding: { type: "spki", format: "pem" },
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
    });
    this.privateKey = pair.privateKey;
    this.#publicKey = pair.publicKey;
  }

  /** Makes the key and all its tokens invalid. */
  revoke(): void {
    this.#revoked = true;
    this.#tokens.clear();
  }

  /** Ends every existing token; the key still makes new ones. */
  expireTokens(): void {
    this.#tokens.clear();
  }

  accepts(authorization: string | undefined): boolean {
    const token = /^Bearer (\S+)$/.exec(authorization ?? "")?.[1];
    return token !== undefined && (this.#tokens.get(token) ?? 0) > this.#now();
  }

  exchange(contentType: string | undefined, body: string, tokenUri: string): TokenAnswer {
    if (!/^application\/x-www-form-urlencoded\b/i.test(contentType ?? ""))
      return refusal("invalid_request", "Content type must be application/x-www-form-urlencoded.");
    const form = new URLSearchParams(body);
    if (form.get("grant_type") !== GRANT)
      return refusal("unsupported_grant_type", `Invalid grant_type: ${form.get("grant_type")}`);
    const wrong = this.#objection(form.get("assertion") ?? "", tokenUri);
    if (wrong !== null) return wrong;
    const token = `ya29.${randomBytes(48).toString("base64url")}`;
    this.issued += 1;
    this.#tokens.set(token, this.#now() + this.tokenS * 1000);
    return {
      status: 200,
      body: { access_token: token, expires_in: Math.max(0, this.tokenS - 1), token_type: "Bearer" },
    };
  }

  #objection(assertion: string, tokenUri: string): TokenAnswer | null {
    const parts = assertion.split(".");
    const [header, claims] = [parsed(parts[0]), parsed(parts[1])];
    if (parts.length !== 3 || header === null || claims === null || /[=+/]/.test(assertion))
      return refusal("invalid_grant", "Invalid JWT: malformed assertion.");
    if (header["alg"] !== "RS256") return refusal("invalid_grant", "Invalid JWT: the algorithm must be RS256.");
    if (header["kid"] !== undefined && header["kid"] !== this.keyId)
      return refusal("invalid_grant", "Invalid JWT Signature.");
    if (claims["iss"] !== this.email) return refusal("invalid_grant", "Invalid grant: account not found");
    const signed = verify(
      "RSA-SHA256",
      Buffer.from(`${parts[0]}.${parts[1]}`),
      createPublicKey(this.#publicKey),
      Buffer.from(parts[2] ?? "", "base64url"),
    );
    if (!signed || this.#revoked) return refusal("invalid_grant", "Invalid JWT Signature.");
    if (claims["aud"] !== tokenUri) return refusal("invalid_grant", "Invalid JWT: Failed audience check.");
    const { iat, exp, scope } = claims;
    const now = this.#now() / 1000;
    if (
      typeof iat !== "number" ||
      typeof exp !== "number" ||
      !Number.isInteger(iat) ||
      !Number.isInteger(exp) ||
      exp <= iat ||
      exp - iat > 3_600 ||
      Math.abs(now - iat) > SKEW_S
    )
      return refusal(
        "invalid_grant",
        "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.",
      );
    if (typeof scope !== "string" || scope === "" || !scope.split(" ").every((one) => SCOPES.test(one)))
      return refusal("invalid_scope", "Invalid OAuth scope or ID token audience provided.");
    return null;
  }
}

const refusal = (error: string, description: string): TokenAnswer => ({
  status: 400,
  body: { error, error_description: description },
});

function parsed(part: string | undefined): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(part ?? "", "base64url").toString("utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
