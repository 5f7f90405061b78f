// Offers one key of an SSH agent: the machine must not see the others.

import ssh2, { type IdentityCallback, type KnownPublicKeys, type ParsedKey } from "ssh2";

/** Listing keys requires no touch and no passphrase. */
const ANSWER_MS = 5_000;

/** The agent at `socket`, offering only this public key. */
export class OneKeyAgent extends ssh2.OpenSSHAgent {
  readonly #publicKey: Buffer;

  constructor(socket: string, publicKey: Buffer) {
    super(socket);
    this.#publicKey = publicKey;
  }

  override getIdentities(callback: IdentityCallback<ParsedKey>): void {
    super.getIdentities((error, keys) => {
      if (error || !keys) return callback(error ?? null, []);
      callback(
        null,
        keys.filter((key) => blobOf(key).equals(this.#publicKey)),
      );
    });
  }
}

/** True, or the reason why not. */
export function agentHolds(socket: string, publicKey: Buffer): Promise<true | string> {
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve("the SSH agent does not answer"), ANSWER_MS);
    new OneKeyAgent(socket, publicKey).getIdentities((error, keys) => {
      clearTimeout(late);
      if (error) resolve(`the SSH agent at ${socket} does not answer`);
      else resolve(keys && keys.length > 0 ? true : "the SSH agent does not hold it");
    });
  });
}

function blobOf(entry: KnownPublicKeys<ParsedKey>[number]): Buffer {
  if ("getPublicSSH" in entry) return entry.getPublicSSH();
  const key = "pubKey" in entry.pubKey ? entry.pubKey.pubKey : entry.pubKey;
  if (typeof key === "string") return Buffer.from(key, "base64");
  return Buffer.isBuffer(key) ? key : key.getPublicSSH();
}
