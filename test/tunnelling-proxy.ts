// A proxy that makes tunnels, a TLS certificate that this process trusts, and servers that end with their test. For tests
// of what goes through HTTPS_PROXY.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, onTestFinished } from "vitest";

/** Listens on loopback until the test ends; resolves with the port. */
export async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Makes certificates that this process trusts until the file's tests are over. Call it at the top of a test file. */
export function trustedCertificates(): (name: string, alternatives: string) => { key: string; cert: string } {
  const trusted = getCACertificates("default");
  const folder = mkdtempSync(join(tmpdir(), "svc-proxy-"));
  afterAll(() => {
    setDefaultCACertificates(trusted);
    rmSync(folder, { recursive: true, force: true });
  });
  return (name, alternatives) => {
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const subject = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=${alternatives}`];
    const args = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert];
    execFileSync("openssl", [...args, ...subject], { stdio: "ignore" });
    const pair = { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
    setDefaultCACertificates([...trusted, pair.cert]);
    return pair;
  };
}

/** The record of a proxy. */
export interface Witness {
  /** The bytes that it read in clear. */
  seen: string;
  /** The hosts and ports of its tunnels. */
  tunnels: string[];
}

/** Makes tunnels to `target`, whatever host is requested; resolves with the proxy's address. */
export async function proxyTo(target: number, witness: Witness, { refuses = false } = {}): Promise<string> {
  const server = createServer((request, response) => {
    witness.seen += `${request.method} ${request.url} ${JSON.stringify(request.headers)}`;
    response.writeHead(400).end();
  });
  server.on("connect", (request, socket, head) => {
    witness.tunnels.push(request.url ?? "");
    witness.seen += JSON.stringify(request.headers);
    if (refuses) return void socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    const upstream = connect(target, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      upstream.write(head);
      socket.on("data", (chunk: Buffer) => (witness.seen += chunk.toString("latin1")));
      socket.pipe(upstream).pipe(socket);
    });
    for (const one of [socket, upstream]) one.on("error", () => [socket, upstream].map((end) => end.destroy()));
  });
  return `http://127.0.0.1:${await listening(server)}`;
}
