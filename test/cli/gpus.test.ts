// `svc gpus`: the catalogue, with the statistics of the machines that this home rented.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { openStore, prepareHome } from "../../src/store/database.ts";
import { HostStore } from "../../src/store/host-store.ts";
import { Workplace } from "./serving.ts";

const at = new Workplace();
afterAll(() => at.close());

it("A home that rented nothing shows only the catalogue, and reading does not create the home", () => {
  const { code, out } = at.svc("gpus", "--provider", "podhost");
  expect(code).toBe(0);
  expect(out).toMatch(/^A40\t48\t[a-z,]+\n/m);
  expect(JSON.parse(at.svc("gpus", "--json").out)).toMatchObject({ history: [] });
});

it("Machines that were rented are counted at their GPU and provider", async () => {
  const home = join(at.root, "used");
  mkdirSync(home, { mode: 0o700 });
  prepareHome(home);
  const { db } = await openStore(home, { newInstallationId: "abcdefgh12345678", now: Date.now() });
  const hosts = new HostStore(db);
  const row = { provider: "podhost", gpu: "A40", host: null, gpu_uuids: null, reason: null, at: Date.now() };
  for (const [machine, boot_seconds] of [
    ["m1", 70],
    ["m2", 74],
    ["m3", 90],
  ] as const)
    hosts.insert({ ...row, machine, verdict: "good", boot_seconds });
  hosts.insert({ ...row, machine: "m4", verdict: "bad", reason: "no GPU", boot_seconds: null });
  db.close();
  expect(at.svcIn(home, "gpus").out).toMatch(/^A40\t48\t[a-z,]+\tpodhost: 3 of 4 good, 74 s to SSH\n/m);
  expect(at.svcIn(home, "gpus", "--provider", "market").out).not.toContain("good");
  expect(JSON.parse(at.svcIn(home, "gpus", "--json").out)).toMatchObject({
    history: [{ provider: "podhost", gpu: "A40", good: 3, of: 4, seconds_to_ssh_p50: 74 }],
  });
});
