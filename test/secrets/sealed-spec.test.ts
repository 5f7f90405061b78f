import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { maskSpec } from "../../src/store/records.ts";
import { installationKey } from "../../src/secrets/installation-key.ts";
import { unseal } from "../../src/secrets/sealed.ts";
import { sealSpec, unsealSpec } from "../../src/secrets/sealed-spec.ts";

const key = randomBytes(32);
const none = new Redactor([]);
const spec = RunSpec.parse({
  entrypoint: "a.py",
  env: { API_KEY: "clear-secret", DB: "pg://u:clear-pw@h", REF: "env://X", N: "1", A_TOKEN: "sealed://AAAA" },
});

it("literal secrets are sealed and restored only with the same key", () => {
  const sealed = sealSpec(spec, key, none);
  expect(JSON.stringify(sealed)).not.toContain("clear-");
  expect(sealed.env).toMatchObject({
    REF: "env://X",
    N: "1",
    API_KEY: expect.stringMatching(/^sealed:\/\//) as string,
  });
  expect(unsealSpec(JSON.parse(JSON.stringify(sealed)) as RunSpec, key)).toEqual(spec);
  expect(sealSpec(spec, key, none).env["API_KEY"]).not.toBe(sealed.env["API_KEY"]);
  expect(unsealSpec(sealed, randomBytes(32)).env["API_KEY"]).toBe(sealed.env["API_KEY"]);
});

it.each(["", "\n", "00", "z".repeat(64), "ab".repeat(31), "ab".repeat(33)])(
  "a key file of %j is none: what it would seal, anyone could open",
  (text) => {
    const home = mkdtempSync(join(tmpdir(), "svc-key-"));
    try {
      writeFileSync(join(home, "installation.key"), text);
      const made = installationKey(home);
      expect(made).toHaveLength(32);
      expect(made.toString("hex")).not.toContain("abababab");
      expect(installationKey(home)).toEqual(made);
    } finally {
      rmSync(home, { recursive: true });
    }
  },
);

it("an unreadable key file is not replaced: that would lose everything it has sealed", () => {
  const home = mkdtempSync(join(tmpdir(), "svc-key-"));
  try {
    symlinkSync("installation.key", join(home, "installation.key"));
    expect(() => installationKey(home)).toThrow(/ELOOP/);
  } finally {
    rmSync(home, { recursive: true });
  }
});

it("A spec with a known secret in any other place is masked there, and restored only with the same key", () => {
  const secret = "tk_0123456789";
  const given = RunSpec.parse({ ...spec, args: [`--token=${secret}`, "x"], image: `r/x:${secret}`, region: secret });
  const sealed = sealSpec(given, key, new Redactor([secret]));
  expect(JSON.stringify(sealed)).not.toContain(secret);
  expect(sealed.args).toEqual(["--token=***redacted***", "x"]);
  const stored = JSON.parse(JSON.stringify(sealed)) as RunSpec;
  expect(unsealSpec(stored, key)).toEqual(given);
  expect(unsealSpec(stored, randomBytes(32)).args).toEqual(sealed.args);
  expect(maskSpec(stored)).not.toHaveProperty("sealed");
});

it("Sealed values that cannot be read now are an error, and none where nothing was sealed", () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-sealed-"));
  try {
    expect(unseal(join(folder, "none"), key)).toEqual([]);
    expect(() => unseal(folder, key)).toThrow("EISDIR");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
