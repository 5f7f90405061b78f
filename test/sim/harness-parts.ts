// Shared parts of the simulators' tests: components, calls to the API, and a way to wait for results.

import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEADLINE_MS } from "../deadline.ts";
import { makeFleet } from "./machines/fleet.ts";
import { realClock } from "./providers/clock.ts";
import { makeFaults } from "./providers/faults.ts";
import { makeLedger } from "./providers/ledger.ts";
import type { SimClock, SimParts } from "./providers/parts.ts";

export interface TestParts extends SimParts {
  dir: string;
  keyPath: string;
  publicKey: string;
  close(): Promise<void>;
}

/** Parts with a separate fleet and a new login key. */
export async function testParts(clock: SimClock = realClock()): Promise<TestParts> {
  const dir = mkdtempSync(join(tmpdir(), "svc-sim-test-"));
  const keyPath = join(dir, "key");
  execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", keyPath]);
  // `SVC_SIM_FLEET=plain` tests the machines of computers that allow no namespaces.
  const plain = process.env["SVC_SIM_FLEET"] === "plain";
  const fleet = await makeFleet({ dir: mkdtempSync(join(dir, "fleet-")), ...(plain && { kind: "plain" }) });
  return {
    dir,
    keyPath,
    fleet,
    clock,
    apiKey: "sim-key-0123456789",
    publicKey: readFileSync(`${keyPath}.pub`, "utf8").trim(),
    ledger: makeLedger(),
    faults: makeFaults(),
    async close() {
      await fleet.close();
      rmSync(dir, {
        recursive: true,
        force: true,
      });
    },
  };
}

/** Calls `look` until its result is not undefined, null or false; the error of a timeout contains the last result. */
export async function eventually<T>(look: () => Promise<T> | T, ms = DEADLINE_MS): Promise<NonNullable<T>> {
  const until = Date.now() + ms;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== null && seen !== false) return seen;
    if (Date.now() > until) throw new Error(`nothing after ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export interface Answer {
  status: number;
  text: string;
  json: Record<string, unknown>;
}

export async function call(
  method: string,
  url: string,
  options: { key?: string; body?: unknown; headers?: Record<string, string>; text?: string } = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(options.key !== undefined && { authorization: `Bearer ${options.key}` }),
      ...(options.body !== undefined && { "content-type": "application/json" }),
      ...options.headers,
    },
    ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
    ...(options.text !== undefined && { body: options.text }),
    signal: AbortSignal.timeout(DEADLINE_MS),
  });
  const text = await response.text();
  let json: Record<string, unknown> = {};
  try {
    json = JSON.parse(text) as Record<string, unknown>;
  } catch {
    // Some answers are not JSON; their text is returned.
  }
  return { status: response.status, text, json };
}

export interface Way {
  host: string;
  port: number;
  user: string;
  keyPath: string;
}

/** Runs one command over OpenSSH; returns its output and its exit code. */
export function ssh(
  way: Way,
  command: string,
  onOut: (text: string) => void = () => {},
): Promise<{ code: number; out: string; err: string }> {
  const options = [
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "BatchMode=yes",
    "ConnectTimeout=5",
    "IdentitiesOnly=yes",
  ];
  const argv = ["-F", "/dev/null", ...options.flatMap((option) => ["-o", option]), "-i", way.keyPath];
  const child = spawn("ssh", [...argv, "-p", String(way.port), `${way.user}@${way.host}`, command], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
    onOut(text);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  return new Promise((resolve) => void child.once("close", (code) => resolve({ code: code ?? 255, out, err })));
}

/** Waits until a login works. */
export const login = (way: Way, command = "id -un"): Promise<{ code: number; out: string; err: string }> =>
  eventually(async () => {
    const done = await ssh(way, command);
    return done.code === 255 ? null : done;
  });
