// The simulated notebook: a real sshd behind a tunnel with the usual faults of tunnels.
// @module-tag needs/sshd

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { eventually, login, ssh, testParts, type TestParts, type Way } from "./harness-parts.ts";
import { NotebookSim } from "./providers/notebook.ts";

let parts: TestParts;
let sim: NotebookSim;
beforeAll(async () => {
  parts = await testParts();
  sim = await NotebookSim.start({ ...parts, authorizedKeys: [parts.publicKey] });
});
afterEach(() => {
  parts.faults.clear();
  sim.tunnel.closeAfterAccept(false);
  sim.tunnel.blackhole(false);
  sim.tunnel.throttle(null);
  sim.tunnel.capBytes(null);
});
afterAll(async () => {
  await sim.close();
  await parts.close();
});
const way = (): Way => ({ host: sim.tunnel.host, port: sim.tunnel.port, user: "root", keyPath: parts.keyPath });

describe("the tunnel", () => {
  it("leads to the machine and counts connections", async () => {
    await login(way());
    const before = sim.tunnel.connections;
    expect(await ssh(way(), "echo hello")).toMatchObject({ code: 0, out: "hello\n" });
    expect(sim.tunnel.connections).toBe(before + 1);
    expect(sim.endpointLine).toContain(`"port":${sim.tunnel.port},"user":"root","hostKey":"ssh-ed25519 `);
    expect(sim.settings().credentials).toEqual({
      providers: { notebook: { host: "127.0.0.1", port: sim.tunnel.port, ssh_user: "root" } },
    });
  });

  it("closes silently, as a rate limit does", async () => {
    sim.tunnel.closeAfterAccept(true);
    const refused = await ssh(way(), "true");
    expect(refused.code).toBe(255);
    expect(refused.err).toMatch(/kex_exchange_identification|Connection closed|reset/);
  });

  it("holds everything, open connections as well, until it is released", async () => {
    await login(way());
    // Only a connection that is logged in may wait for longer than the client's ConnectTimeout.
    let seen = "";
    const running = ssh(way(), "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done", (text) => (seen += text));
    await eventually(() => seen !== "");
    sim.tunnel.blackhole(true);
    const silent = await ssh(way(), "true");
    expect(silent.code).toBe(255);
    sim.tunnel.blackhole(false);
    expect((await running).out).toBe("1\n2\n3\n4\n5\n6\n7\n8\n");
  });

  it("drops every connection, and comes back at another port", async () => {
    const running = ssh(way(), "sleep 30");
    await eventually(() => sim.tunnel.open > 0);
    const old = way();
    await sim.tunnel.changePort();
    expect((await running).code).toBe(255);
    expect(sim.tunnel.port).not.toBe(old.port);
    expect((await ssh(old, "true")).code).toBe(255);
    expect((await ssh(way(), "true")).code).toBe(0);
  });

  it("is slow, or has spent its quota", async () => {
    sim.tunnel.throttle(100);
    const from = performance.now();
    expect((await ssh(way(), "head -c 100000 /dev/zero | tr '\\0' x")).out).toHaveLength(100_000);
    expect(performance.now() - from).toBeGreaterThan(900);
    sim.tunnel.throttle(null);
    sim.tunnel.capBytes(sim.tunnel.bytes + 50_000);
    expect((await ssh(way(), "head -c 1000000 /dev/zero")).code).toBe(255);
    expect((await ssh(way(), "true")).code).toBe(255);
  });

  it("leads to another machine with another key, and at last to none", async () => {
    const before = sim.machine.hostKey;
    await sim.swapMachine();
    expect(sim.machine.hostKey).not.toBe(before);
    await login(way());
    await sim.end();
    expect((await ssh(way(), "true")).code).toBe(255);
    expect(parts.ledger.alive()).toEqual([]);
  });
});
