// The sealed secrets of a run when their file cannot be read any more.

import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { homeLayout } from "../../../src/platform/home-layout.ts";
import { RunSpec } from "../../../src/schemas/spec.ts";
import { KnownSecrets } from "../../../src/secrets/known.ts";
import { RunSecrets } from "../../../src/steps/launch/run-secrets.ts";

const SECRET = "s3cret-of-the-launch";
const key = Buffer.alloc(32, 7);
let home: string;
let file: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "svc-sealed-"));
  file = homeLayout.runSecrets(home, "j1");
  mkdirSync(dirname(file), { recursive: true });
});
afterEach(() => rmSync(home, { recursive: true }));

const control = () =>
  new RunSecrets({
    home,
    env: {},
    key,
    known: new KnownSecrets({ home, env: {} }),
    spec: () => RunSpec.parse({ entrypoint: "a.py" }),
    ofSinks: () => [],
  });
/** Puts a folder in place of the file: even root cannot read it. */
const spoil = () => {
  renameSync(file, `${file}.away`);
  mkdirSync(file);
};
const mend = () => {
  rmSync(file, { recursive: true });
  renameSync(`${file}.away`, file);
};
const masked = (secrets: RunSecrets) => secrets.secrecy("j1").redactor.redactText(`a ${SECRET}`);

it.each([true, false])("each later attempt of a step still masks what was sealed (read before: %s)", (isRead) => {
  const secrets = control();
  if (isRead) expect(masked(secrets)).toContain(SECRET);
  secrets.give("j1", false).seal([SECRET]);
  spoil();
  expect(masked(secrets)).toBe("a ***redacted***");
  const other = control();
  mend();
  expect(masked(other)).toBe("a ***redacted***");
  rmSync(file);
  expect(masked(other)).toBe("a ***redacted***");
});

it("a control plane that never read them has no redactor, says why, and tries again", () => {
  control().give("j1", false).seal([SECRET]);
  spoil();
  const secrets = control();
  const reason = {
    code: "home_unusable",
    retry: "backoff",
    message: expect.stringContaining("secrets of the run j1") as string,
  };
  const thrown = (act: () => unknown): unknown => {
    try {
      return act();
    } catch (e) {
      return e;
    }
  };
  expect(thrown(() => masked(secrets))).toMatchObject(reason);
  expect(thrown(() => secrets.give("j1", false))).toMatchObject(reason);
  mend();
  expect(masked(secrets)).toBe("a ***redacted***");
  spoil();
  secrets.forget("j1");
  expect(thrown(() => masked(secrets))).toMatchObject(reason);
});
