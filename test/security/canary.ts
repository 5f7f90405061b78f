// Watches a run for leaked secrets: searches every form of every canary in everything that other people could read.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, request, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

const random = (bytes: number): string => randomBytes(bytes).toString("base64url");
/** A key without the first lines, which all keys of its kind share. */
const pem = (): string =>
  ["-----BEGIN PRIVATE KEY-----", ...[1, 2, 3].map(() => random(40)), "-----END PRIVATE KEY-----"].join("\n");

/** One secret of every kind that a run may use. */
export const canaries = () => ({
  providerKey: `prov-${random(18)}`,
  otherProviderKey: `other-${random(18)}`,
  hubToken: `hf_${random(24)}`,
  trackerKey: `track${random(30)}`,
  storeSecret: `obj/${random(24)}+x==`,
  literalKey: `lit-${random(18)}"'$ é`,
  environmentRef: pem(),
  storeRef: `ref-${random(18)}`,
  urlPassword: `pw${random(18)}`,
});
export type Canaries = ReturnType<typeof canaries>;

/** The texts that must appear nowhere: the secrets, their parts, and the encodings in which programs print them. */
export function traces(secrets: readonly string[]): { words: string; bytes: Buffer }[] {
  const forms = secrets.flatMap((secret) => {
    const raw = Buffer.from(secret);
    return [
      secret,
      ...secret.split("\n").filter((line) => line.length > 30 && !line.startsWith("-----")),
      secret.slice(0, 14),
      secret.slice(-14),
      raw.toString("base64").replace(/=+$/, "").slice(0, -2),
      raw.toString("base64url").slice(0, -2),
      raw.toString("hex"),
      encodeURIComponent(secret),
      JSON.stringify(secret).slice(1, -1),
    ].filter((form) => !form.includes("-----") || form.length > 60);
  });
  return [...new Set(forms)].map((form) => ({ words: form, bytes: Buffer.from(form) }));
}

/** The names of the places that contain a trace. */
export function found(
  in_: Iterable<readonly [name: string, content: Buffer]>,
  of: readonly { words: string; bytes: Buffer }[],
): string[] {
  const hits: string[] = [];
  for (const [name, content] of in_)
    for (const { words, bytes } of of) if (content.includes(bytes)) hits.push(`${name}: ${words.slice(0, 24)}`);
  return hits;
}

export function* filesOf(folder: string): Generator<readonly [string, Buffer]> {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    try {
      if (entry.isFile()) yield [path, readFileSync(path)];
    } catch (e) {
      if ((e as NodeJS.ErrnoException).code !== "ENOENT") throw e;
    }
  }
}

/**
 * Reads the command line of every process 20 times a second; simulated machines are processes of this computer, too.
 */
export class CommandLines {
  readonly seen = new Set<string>();
  looks = 0;
  readonly #timer = setInterval(() => this.#look(), 50);

  #look(): void {
    this.looks++;
    for (const pid of readdirSync("/proc")) {
      if (!/^[0-9]+$/.test(pid)) continue;
      try {
        this.seen.add(readFileSync(`/proc/${pid}/cmdline`, "latin1"));
      } catch {
        continue; // the process has just ended
      }
    }
  }

  stop(): string[] {
    clearInterval(this.#timer);
    return [...this.seen];
  }
}

/** A proxy in front of a provider's API that records every byte, except the header with the key. */
export async function recorder(target: string): Promise<{ url: string; heard: string[]; close(): void }> {
  const heard: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const to = new URL(incoming.url ?? "/", target);
    const { authorization: _, ...headers } = incoming.headers;
    const call = request(to, { method: incoming.method, headers: incoming.headers }, (reply: IncomingMessage) => {
      outgoing.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.on("data", (part: Buffer) => heard.push(part.toString("latin1"))).pipe(outgoing);
    });
    call.on("error", () => outgoing.destroy());
    heard.push(`${incoming.method} ${incoming.url} ${JSON.stringify(headers)}`);
    incoming.on("data", (part: Buffer) => heard.push(part.toString("latin1"))).pipe(call);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, heard, close: () => server.close() };
}
