import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { specOf, storedSpec } from "../../src/schemas/stored-spec.ts";
import { sealSpec, unsealSpec } from "../../src/secrets/sealed-spec.ts";

const spec = RunSpec.parse({ entrypoint: "train.py", args: ["--lr", "0.1"], stop_grace_seconds: 90 });

it("A spec is read unchanged, without the version of its row", () => {
  const text = storedSpec(spec);
  expect(JSON.parse(text)).toMatchObject({ spec_version: 1 });
  expect(specOf({ spec: text })).toEqual(spec);
});

it("A row of an older version reads with the defaults of the fields that it lacks, and keeps those it has", () => {
  const older = '{"entrypoint":"a.py","args":["1"],"provider":"podhost","gpus":"H100:2","nodes":2,"env":{"A":"1"}}';
  expect(specOf({ spec: older })).toEqual({
    ...RunSpec.parse({ entrypoint: "a.py" }),
    args: ["1"],
    provider: "podhost",
    gpus: "H100:2",
    nodes: 2,
    env: { A: "1" },
  });
});

it("The sealed spec of an older row gets the defaults too", () => {
  const key = randomBytes(32);
  const {
    stop_grace_seconds: _,
    sinks: __,
    ...older
  } = RunSpec.parse({ entrypoint: "a.py", args: ["hunter2-secret"] });
  const written = sealSpec(older as RunSpec, key, new Redactor(["hunter2-secret"]));
  const row = { spec: JSON.stringify(written) };
  expect(row.spec).not.toContain("hunter2");
  expect(unsealSpec(specOf(row), key)).toEqual(RunSpec.parse({ entrypoint: "a.py", args: ["hunter2-secret"] }));
});

it("Two readers never share an array of the defaults", () => {
  const row = { spec: '{"entrypoint":"a.py"}' };
  specOf(row).args.push("x");
  expect(specOf(row).args).toEqual([]);
});
