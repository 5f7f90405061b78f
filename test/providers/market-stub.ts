// A marketplace that gives the answers that a test sets, and refuses what the real one refuses: a missing key, a path
// without its slash, a listing by the old address.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { SvcError } from "../../src/errors/index.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import type { MachineAccess } from "../../src/providers/host.ts";
import { MarketProvider } from "../../src/providers/market/provider.ts";
import type { Order } from "../../src/providers/provider.ts";

export interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  body: Record<string, unknown>;
  at: number;
}
/** `cut`: the connection ends without an answer. `torn`: it ends in the middle of one. */
export type Reply =
  { status?: number; json?: unknown; text?: string; html?: string; headers?: Record<string, string> } | "cut" | "torn";
type Route = (call: Call) => Reply;

export const KEY = "mk-0123456789abcdef";
export const PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAITestKeyTestKeyTestKeyTestKeyTestKeyTest svc";
const STARTED_AT = 1_800_000_000_000;

/** Time that passes only while a caller waits. */
export class StillClock {
  ms = STARTED_AT;
  /** By how much a wait exceeds the requested time: a computer may sleep. */
  sleepMs = 0;
  /** While true, waiting takes no time, so that callers queue at the same instant. */
  stands = false;
  readonly now = (): number => this.ms;
  readonly pause = (ms: number, signal?: AbortSignal): Promise<void> => {
    signal?.throwIfAborted();
    this.ms += this.stands ? 0 : ms + this.sleepMs;
    return Promise.resolve();
  };
}

export class Stub {
  readonly calls: Call[] = [];
  readonly clock = new StillClock();
  /** Null while the owner has taken the key away. */
  secret: string | null = KEY;
  settings: Record<string, string> = {};
  routes: Record<string, Route> = {};
  private server: Server | undefined;
  url = "";

  async start(): Promise<this> {
    this.server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const url = new URL(request.url ?? "/", "http://stub");
        const text = Buffer.concat(chunks).toString("utf8");
        const call: Call = {
          method: request.method ?? "",
          path: url.pathname,
          query: url.searchParams,
          body: text === "" ? {} : (JSON.parse(text) as Record<string, unknown>),
          at: this.clock.now(),
        };
        this.calls.push(call);
        const reply = this.answer(call, request.headers.authorization);
        if (reply === "cut") return void request.socket.destroy();
        if (reply === "torn") {
          response.writeHead(200, { "content-type": "application/json", "content-length": 500 });
          response.write('{"success":true,"instances":[');
          return void setImmediate(() => request.socket.destroy());
        }
        const type =
          reply.html !== undefined ? "text/html" : reply.text !== undefined ? "text/plain" : "application/json";
        response.writeHead(reply.status ?? 200, { "content-type": type, ...reply.headers });
        response.end(reply.html ?? reply.text ?? JSON.stringify(reply.json));
      });
    });
    await new Promise<void>((resolve) => this.server?.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
    return this;
  }

  async close(): Promise<void> {
    this.server?.closeAllConnections();
    await new Promise((resolve) => this.server?.close(resolve));
  }

  provider(): MarketProvider {
    return new MarketProvider({
      credential: () => {
        if (this.secret === null) throw new SvcError("credential_missing", { provider: "market", missing: "the key" });
        return { secret: this.secret, settings: this.settings };
      },
      baseUrl: this.url,
      publicKey: () => Promise.resolve(PUBLIC_KEY),
      access: (handle) => ({ handle }) as unknown as MachineAccess,
      now: this.clock.now,
      pause: this.clock.pause,
    });
  }

  /** Calls of one kind, as `METHOD path`. */
  count(line: string): number {
    return this.calls.filter(({ method, path }) => `${method} ${path}` === line).length;
  }

  private answer(call: Call, authorization: string | undefined): Reply {
    if (authorization !== `Bearer ${KEY}`)
      return { status: 404, json: { success: false, error: "auth_error", msg: "Invalid user key" } };
    if (!call.path.endsWith("/")) return { status: 308, text: "" };
    const route = this.routes[`${call.method} ${call.path}`];
    if (route) return route(call);
    if (`${call.method} ${call.path}` === "GET /api/v0/instances/")
      return {
        status: 410,
        json: { success: false, error: "deprecated_endpoint", msg: "Use /api/v1/instances/ instead." },
      };
    return { status: 404, text: "404: Not Found" };
  }
}

export const NAME = "svc-abcd1234-job000000001-n0-1";
export const PREFIX = "svc-abcd1234-";
export const spec = (input: Partial<Record<keyof RunSpec, unknown>> = {}): RunSpec =>
  RunSpec.parse({ entrypoint: "train.py", provider: "market", gpus: "RTX4090:1", ...input });
export const order = (input: Partial<Record<keyof RunSpec, unknown>> = {}): Order => ({
  name: NAME,
  jobId: "job000000001",
  node: 0,
  spec: spec(input),
});

/** An offer that fits `spec()`, with a test's changes. */
export const offerRow = (changes: Record<string, unknown> = {}): Record<string, unknown> => ({
  id: 501,
  ask_contract_id: 501,
  machine_id: 4411,
  host_id: 77,
  gpu_name: "RTX 4090",
  num_gpus: 1,
  gpu_ram: 24_564,
  dph_base: 0.4,
  dph_total: 0.42,
  disk_space: 500,
  direct_port_count: 10,
  reliability2: 0.99,
  verification: "verified",
  rentable: true,
  rented: false,
  is_bid: false,
  duration: 900_000,
  cuda_max_good: 12.8,
  geolocation: "Montreal, CA",
  ...changes,
});

/** A running machine, with a test's changes. */
export const machineRow = (changes: Record<string, unknown> = {}): Record<string, unknown> => ({
  id: 9001,
  label: NAME,
  machine_id: 4411,
  actual_status: "running",
  intended_status: "running",
  cur_state: "running",
  next_state: "running",
  status_msg: "success, running image/ssh",
  image_runtype: "ssh_direc ssh_proxy",
  ssh_host: "ssh5.example.test",
  ssh_port: 15678,
  public_ipaddr: "203.0.113.45\n",
  ports: {
    "22/tcp": [
      { HostIp: "0.0.0.0", HostPort: "41022" },
      { HostIp: "::", HostPort: "41022" },
    ],
  },
  dph_total: 0.43,
  end_date: STARTED_AT / 1000 + 900_000,
  ...changes,
});

export const page = (rows: unknown[], next: string | null = null, total: number = rows.length): Reply => ({
  json: { success: true, instances: rows, instances_found: rows.length, total_instances: total, next_token: next },
});
export const refusal = (status: number, error: string, msg = ""): Reply => ({
  status,
  json: { success: false, error, msg },
});
