// A TCP tunnel on loopback in front of a machine's sshd, with every fault that a tunnel can have.

import { createServer, connect, type AddressInfo, type Server, type Socket } from "node:net";
import { Transform } from "node:stream";

export interface Target {
  address: string;
  port: number;
}

export class Forwarder {
  /** Number of all connections, including dropped ones. */
  connections = 0;
  /** Bytes that went through, in both directions. */
  bytes = 0;

  #server: Server;
  #target: Target;
  readonly #pairs = new Set<[Socket, Socket | null]>();
  #closeAfterAccept = false;
  #blackhole = false;
  #kilobytesPerSecond: number | null = null;
  #bytesMax: number | null = null;

  /** An address of this computer. */
  readonly host: string;

  private constructor(target: Target, server: Server, host: string) {
    this.#target = target;
    this.#server = server;
    this.host = host;
  }

  /** Listens on a free port of 127.0.0.1, or at the given address. */
  static async open(target: Target, port = 0, host = "127.0.0.1"): Promise<Forwarder> {
    const forwarder = new Forwarder(target, createServer(), host);
    await forwarder.#listen(port);
    return forwarder;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo | null)?.port ?? 0;
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Ends every connection, like a restarting tunnel. */
  dropAll(): void {
    for (const [a, b] of this.#pairs) {
      a.resetAndDestroy();
      b?.destroy();
    }
  }

  /** Closes new connections without a byte, like a tunnel's rate limit. */
  closeAfterAccept(on: boolean): void {
    this.#closeAfterAccept = on;
  }

  /** Connections stay open, also existing ones, but no byte passes. */
  blackhole(on: boolean): void {
    this.#blackhole = on;
    for (const [a, b] of this.#pairs) {
      for (const socket of [a, b]) {
        if (on) socket?.pause();
        else socket?.resume();
      }
      if (!on && b === null) a.destroy();
    }
  }

  /** The same machine behind another port; the old port refuses. Connections end. */
  async changePort(): Promise<void> {
    const old = this.#server;
    this.#server = createServer();
    await this.#listen(0);
    this.dropAll();
    await new Promise<void>((done) => old.close(() => done()));
  }

  /** Another machine behind the same port. Connections end. */
  swap(target: Target): void {
    this.#target = target;
    this.dropAll();
  }

  /** Limits connections from now on; null removes the limit. */
  throttle(kilobytesPerSecond: number | null): void {
    this.#kilobytesPerSecond = kilobytesPerSecond;
  }

  /** After so many bytes in total, closes everything permanently, as when a plan's traffic is used up. */
  capBytes(max: number | null): void {
    this.#bytesMax = max;
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()));
    this.dropAll();
    await closed;
  }

  #listen(port: number): Promise<void> {
    const server = this.#server;
    server.on("connection", (client) => this.#accept(client));
    return new Promise((done, fail) => {
      server.once("error", fail);
      server.listen(port, this.host, () => done());
    });
  }

  #accept(client: Socket): void {
    this.connections += 1;
    client.on("error", () => client.destroy());
    const usedUp = this.#bytesMax !== null && this.bytes >= this.#bytesMax;
    if (this.#closeAfterAccept || usedUp) {
      client.end();
      // Without reading, the end of the connection would never be detected.
      client.resume();
      return;
    }
    if (this.#blackhole) {
      const pair: [Socket, null] = [client, null];
      this.#pairs.add(pair);
      client.pause();
      client.once("close", () => this.#pairs.delete(pair));
      return;
    }
    const upstream = connect(this.#target.port, this.#target.address);
    upstream.setNoDelay(true);
    client.setNoDelay(true);
    const pair: [Socket, Socket] = [client, upstream];
    this.#pairs.add(pair);
    const end = (): void => {
      this.#pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    upstream.on("error", end);
    client.once("close", end);
    upstream.once("close", end);
    client.pipe(this.#meter(end)).pipe(upstream);
    upstream.pipe(this.#meter(end)).pipe(client);
  }

  #meter(end: () => void): Transform {
    const rate = this.#kilobytesPerSecond;
    let freeAt = 0;
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        this.bytes += chunk.length;
        if (this.#bytesMax !== null && this.bytes > this.#bytesMax) {
          end();
          done();
          return;
        }
        if (rate === null) {
          done(null, chunk);
          return;
        }
        freeAt = Math.max(freeAt, Date.now()) + chunk.length / rate;
        setTimeout(() => done(null, chunk), freeAt - Date.now());
      },
    });
  }
}
