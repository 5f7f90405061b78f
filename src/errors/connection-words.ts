// Why a connection failed, in words that a person can act on. Every client of ours that speaks HTTP uses it: of providers, the hub,
// stores and notifications. Each text follows the address, so it says "it" and "its". ssh has words of its own, with host and port.

const UNKNOWN_SIGNER =
  "its TLS certificate is not from a trusted CA: a proxy may intercept the connection. If it is your own proxy or server, name its certificate in NODE_EXTRA_CA_CERTS";
const NOT_TLS = "what answers there does not speak https";
const CUT = "the connection was cut";
const FORBIDDEN = "this computer forbids the connection";
const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: "its name cannot be resolved: the address is wrong, or this computer has no network",
  EAI_AGAIN:
    "its name cannot be resolved at the moment: this computer has no network, or its name server does not answer",
  ECONNREFUSED: "nothing listens at this address (the connection was refused)",
  ECONNRESET: CUT,
  EPIPE: CUT,
  UND_ERR_SOCKET: CUT,
  ETIMEDOUT: "the connection to this address timed out",
  EHOSTUNREACH: "no route leads to it from this network",
  ENETUNREACH: "this computer has no network",
  EACCES: FORBIDDEN,
  EPERM: FORBIDDEN,
  EMFILE: "this computer has too many files and connections open",
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_SIGNER,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_SIGNER,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_SIGNER,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_SIGNER,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_SIGNER,
  CERT_HAS_EXPIRED: "its certificate has expired, or the clock of this computer is wrong",
  CERT_NOT_YET_VALID: "its certificate is not valid yet, or the clock of this computer is wrong",
  ERR_TLS_CERT_ALTNAME_INVALID:
    "its certificate is for another name: the address is wrong, or something answers in its place",
  EPROTO: NOT_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NOT_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NOT_TLS,
};

/** Errors of an abort have codes as well, and their reasons are the caller's. */
const OF_AN_ABORT = "ABORT_ERR";
const CAUSES_MAX = 8;

/** The words for the first code among the error and its causes; null if none of them has one: then the message is all there is. */
export function connectionWords(error: unknown): string | null {
  for (let e = error, depth = 0; typeof e === "object" && e !== null && depth < CAUSES_MAX; depth++) {
    const { code, message, cause } = e as { code?: unknown; message?: unknown; cause?: unknown };
    if (typeof code === "string" && code !== OF_AN_ABORT)
      return WORDS[code] ?? (code.startsWith("HPE_") ? "it does not speak HTTP" : `error ${code}`);
    // A response whose connection was lost before its end.
    if (message === "aborted") return CUT;
    e = cause;
  }
  return null;
}
