// Unreachable hubs: the messages, their times, and the retries behind them.
// @module-tag needs/openssl

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it, vi } from "vitest";
import { systemClock, type Clock } from "../../src/domain/clock.ts";
import { PATIENCE as REAL } from "../../src/hub/retry.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { Pulling } from "./pulling.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-hub-tls-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A server with an untrusted certificate. */
async function selfSigned(): Promise<{ url: string; close: () => void }> {
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"];
  execFileSync("openssl", [...request, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) });
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

it.each([
  // Nothing listens on the discard port.
  ["that refuses the connection", () => Promise.resolve({ url: "http://127.0.0.1:9", close: () => undefined })],
  ["of an unknown name", () => Promise.resolve({ url: "https://hub.invalid", close: () => undefined })],
  ["with a certificate that is not trusted", selfSigned],
])(
  "A hub %s is reported at once, and to waiting callers within ten seconds, and svc retries meanwhile",
  async (_, hubAt) => {
    const hub = await hubAt();
    const q = await new Pulling().open({ patience: REAL });
    try {
      q.settings.url = hub.url;
      const began = performance.now();
      const { id } = q.pulls.pull({ model_id: "ann/tiny" });
      await vi.waitUntil(() => q.pulls.get(id).note !== null, { timeout: DEADLINE_MS, interval: 10 });
      expect(q.pulls.get(id).note).toEqual({
        kind: "retrying",
        message: expect.stringMatching(/cannot be reached: /) as string,
        retry_in_seconds: expect.any(Number) as number,
      });
      await expect(q.pulls.wait(id)).rejects.toMatchObject({
        code: "hub_unreachable",
        message: expect.stringContaining("keeps trying") as string,
      });
      expect(performance.now() - began).toBeLessThan(10_000);
      expect(q.pulls.get(id).status).toBe("running");
      q.hub.commit("ann/tiny", { "config.json": Buffer.from("{}") });
      await q.pulls.cancel(id);
    } finally {
      await q.close();
      hub.close();
    }
  },
);

it("A hub that refuses connections for about a minute ends the pull, and one that answers is retried for longer", async () => {
  let waited = 0;
  const clock: Clock = {
    ...systemClock,
    monotonic: () => waited,
    setTimer: (ms, fn) => {
      waited += ms;
      return systemClock.setTimer(0, fn);
    },
  };
  const patience = { attemptsMax: 20, delayMsMin: 500, delayMsMax: 30_000, askedMsMax: 600_000 };
  const q = await new Pulling().open({ clock, patience });
  try {
    const { url } = q.hub;
    q.settings.url = "http://127.0.0.1:9";
    const { id } = q.pulls.pull({ model_id: "ann/tiny" });
    await vi.waitUntil(() => q.pulls.get(id).status === "failed", { timeout: DEADLINE_MS });
    expect(waited).toBeGreaterThan(20_000);
    expect(waited).toBeLessThan(60_000);
    [waited, q.settings.url] = [0, url];
    q.hub.commit("ann/tiny", { "config.json": Buffer.from("{}") });
    q.hub.faults.down = 99;
    await expect(q.pull("ann/tiny")).rejects.toMatchObject({ code: "hub_unreachable" });
    expect(waited).toBeGreaterThan(60_000);
  } finally {
    await q.close();
  }
});
