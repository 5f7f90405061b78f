import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { RunSpec } from "../../src/schemas/spec.ts";
import { sealSpec, unsealSpec } from "../../src/secrets/sealed-spec.ts";

const key = randomBytes(32);
const spec = RunSpec.parse({
  entrypoint: "a.py",
  env: { API_KEY: "clear-secret", DB: "pg://u:clear-pw@h", REF: "env://X", N: "1", A_TOKEN: "sealed://AAAA" },
});

it("literal secrets are sealed and come back with the same key alone", () => {
  const sealed = sealSpec(spec, key);
  expect(JSON.stringify(sealed)).not.toContain("clear-");
  expect(sealed.env).toMatchObject({
    REF: "env://X",
    N: "1",
    API_KEY: expect.stringMatching(/^sealed:\/\//) as string,
  });
  expect(unsealSpec(JSON.parse(JSON.stringify(sealed)) as RunSpec, key)).toEqual(spec);
  expect(sealSpec(spec, key).env["API_KEY"]).not.toBe(sealed.env["API_KEY"]);
  expect(unsealSpec(sealed, randomBytes(32)).env["API_KEY"]).toBe(sealed.env["API_KEY"]);
});
