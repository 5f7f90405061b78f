import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loadSshKey, newEd25519 } from "../../src/ssh/keys.ts";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "svc-keys-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("svc makes many keys, and each can be read", async () => {
  for (let i = 0; i < 400; i++) {
    const path = join(folder, `key${i}`);
    writeFileSync(path, newEd25519(), { mode: 0o600 });
    expect((await loadSshKey({ path, home: folder })).publicKeyLine).toMatch(/^ssh-ed25519 AAAA/);
  }
});

it("svc makes keys that OpenSSH accepts, and names the same public key", { tags: "needs/ssh" }, async () => {
  const key = await loadSshKey({ path: null, home: folder });
  const said = spawnSync("ssh-keygen", ["-y", "-f", key.path], { encoding: "utf8" }).stdout.trim();
  expect(said.split(" ").slice(0, 2)).toEqual(key.publicKeyLine.split(" ").slice(0, 2));
});
