// A pod host that gives the answers that a test sets, over real HTTP. It has no rules of its own.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { PodhostProvider } from "../../src/providers/podhost/provider.ts";
import type { MachineHandle, Order } from "../../src/providers/provider.ts";
import { RunSpec } from "../../src/schemas/spec.ts";

export const KEY = "pk_0123456789secret";
export const PUBLIC_KEY = "ssh-ed25519 AAAAC3Nz svc";

export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  key: string | undefined;
  /** The first field that a GraphQL document asks for, as `podTerminate`. */
  root: string;
  body: any;
}
export interface Answer {
  status?: number;
  headers?: Record<string, string>;
  json?: unknown;
  raw?: string | Buffer;
  /** Cuts the connection instead of answering. */
  cut?: boolean;
}
export type Script = (asked: Asked) => Answer | Promise<Answer>;

export interface Stub {
  url: string;
  asked: Asked[];
  /** Root fields of GraphQL calls, or method and path. */
  names(): string[];
  script: Script;
  provider: PodhostProvider;
  /** The provider's clock, in milliseconds; a pause moves it. */
  clock: { now: number; pauses: number[] };
  settings: Record<string, string>;
  /** Null while the owner has taken the key away. */
  secret: string | null;
}

/** Ends with the test. */
export async function podhostStub(script: Script, settings: Record<string, string> = {}): Promise<Stub> {
  const asked: Asked[] = [];
  const clock = { now: Date.parse("2026-06-01T12:00:00Z"), pauses: [] as number[] };
  const server: Server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => (text += chunk));
    request.on("end", async () => {
      const url = new URL(request.url ?? "/", "http://stub");
      const body = text === "" ? null : JSON.parse(text);
      const root = /\{\s*([A-Za-z]+)/.exec(typeof body?.query === "string" ? body.query : "")?.[1] ?? "";
      const one: Asked = {
        method: request.method ?? "",
        path: url.pathname,
        query: url.searchParams,
        key: request.headers.authorization,
        root,
        body,
      };
      asked.push(one);
      const answer = await stub.script(one);
      if (answer.cut) return void request.socket.destroy();
      response.writeHead(answer.status ?? 200, {
        "content-type": answer.json === undefined ? "text/plain" : "application/json",
        ...answer.headers,
      });
      response.end(answer.json === undefined ? (answer.raw ?? "") : JSON.stringify(answer.json));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stub: Stub = {
    url,
    asked,
    names: () => asked.map(({ root, method, path }) => (root === "" ? `${method} ${path}` : root)),
    script,
    clock,
    settings,
    secret: KEY,
    provider: new PodhostProvider({
      credential: () => {
        if (stub.secret === null) throw new SvcError("credential_missing", { provider: "podhost", missing: "the key" });
        return { secret: stub.secret, settings };
      },
      baseUrl: url,
      publicKey: async () => PUBLIC_KEY,
      access: () => {
        throw new Error("no test here reaches a machine");
      },
      now: () => clock.now,
      pause: async (ms) => {
        clock.pauses.push(ms);
        clock.now += ms;
      },
    }),
  };
  return stub;
}

export const data = (value: unknown): Answer => ({ json: { data: value } });
export const errors = (...messages: string[]): Answer => ({
  json: { errors: messages.map((message) => ({ message })), data: null },
});

/** A running pod with an endpoint, in the form of GraphQL. */
export const pod = (change: Record<string, unknown> = {}): Record<string, unknown> => ({
  id: "q7r2vd0kx1",
  name: "svc-abc-job1-n0-1",
  desiredStatus: "RUNNING",
  lastStatusChange: "Rented by User: Mon Jun 01 2026 12:00:00 GMT+0000",
  costPerHr: 2.99,
  adjustedCostPerHr: null,
  machineId: "m4k2",
  createdAt: "2026-06-01T11:00:00Z",
  runtime: { ports: [{ ip: "203.0.113.20", isIpPublic: true, privatePort: 22, publicPort: 17445, type: "tcp" }] },
  ...change,
});
export const restPod = (change: Record<string, unknown> = {}): Record<string, unknown> => ({
  id: "q7r2vd0kx1",
  name: "svc-abc-job1-n0-1",
  status: "RUNNING",
  cost: 2.99,
  createdAt: "2026-06-01T11:00:00Z",
  ssh: { direct: { host: "203.0.113.20", port: 17445, username: "root" } },
  ...change,
});

export const specOf = (change: Record<string, unknown> = {}): RunSpec =>
  RunSpec.parse({ entrypoint: "train.py", provider: "podhost", gpus: "H100:2", ...change });
export const orderOf = (change: Record<string, unknown> = {}): Order => ({
  name: "svc-abc-job1-n0-1",
  jobId: "job1",
  node: 0,
  spec: specOf(change),
});
export const never = new AbortController().signal;

export async function thrownBy(promise: Promise<unknown>): Promise<SvcError> {
  try {
    await promise;
  } catch (e) {
    return e as SvcError;
  }
  throw new Error("nothing was thrown");
}

export const HANDLE: MachineHandle = {
  v: 1,
  provider: "podhost",
  id: "q7r2vd0kx1",
  name: "svc-abc-job1-n0-1",
  address: null,
  priceMicro: 2_990_000,
  extra: { createdAt: "2026-06-01T11:00:00Z" },
};
/** Lists these pods, and finds no other by its id. */
export const listing =
  (...pods: unknown[]) =>
  ({ root }: { root: string }): Answer =>
    root === "pod"
      ? data({ pod: null })
      : root === "podTerminate"
        ? data({ podTerminate: null })
        : data({ myself: { pods } });

/** An offer as a search returns it, ready to be ordered. */
export const OFFER = { id: "offer", priceMicro: 1, extra: { gpuTypeId: "NVIDIA L4", gpuCount: "1", cloud: "SECURE" } };
/** REST's answer about a pod that does not exist. */
export const NO_POD = { status: 404, json: { title: "Not Found", status: 404, detail: "pod not found" } };
