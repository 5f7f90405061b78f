// `--json FIELDS`: the words that are fields, what is printed, and what an unknown field gets.

import { afterAll, beforeAll, expect, test } from "vitest";
import { asksForJson, declare, parseArgv } from "../../src/cli/argv.ts";
import { allCommands } from "../../src/cli/commands/index.ts";
import { JobRecord } from "../../src/schemas/job.ts";
import { JOB_FIELDS } from "../../src/schemas/names.ts";
import { Workplace } from "./serving.ts";

const COMMANDS = await allCommands();

const cli = declare(COMMANDS, "1.2.3");
const input = (line: string) => {
  const parsed = parseArgv(line.split(" "), cli, COMMANDS);
  if (parsed.kind !== "run") throw new Error(`${line} is ${parsed.kind}`);
  return parsed.input;
};

test("The fields of a job's record are listed without loading its schema", () => {
  expect([...JOB_FIELDS]).toEqual(Object.keys(JobRecord.shape));
});

test.each([
  ["jobs --json id", ["id"], []],
  ["jobs --json id,status 4k2m", ["id", "status"], ["4k2m"]],
  ["jobs --json=id,status", ["id", "status"], []],
  ["--json id jobs", ["id"], []],
  ["jobs --json 4k2m", null, ["4k2m"]],
  ["jobs --json", null, []],
  ["jobs --json -- id", null, ["id"]],
])("`svc %s` asks for %j of %j", (line, fields, args) => {
  expect(input(line)).toMatchObject({ json: true, fields, args });
  expect(asksForJson(line.split(" "))).toBe(true);
});

test.each(["jobs --json=ID", "jobs --json id,stauts", "jobs --json=", "timeline abc --json=id"])(
  "`svc %s` is refused",
  (line) => {
    expect(() => input(line)).toThrow(expect.objectContaining({ code: "usage" }) as Error);
  },
);

let at: Workplace;
let id: string;
beforeAll(async () => {
  at = new Workplace();
  at.file("train.py", "raise SystemExit(3)\n");
  id = await at.submit(await at.serve(), "train.py");
  expect(at.svc("wait", id).code).toBe(0);
});
afterAll(() => at.close());

test("Only the named fields are printed, as an array of objects", () => {
  const r = at.svc("jobs", "--json", "id,status,region");
  expect([r.code, JSON.parse(r.out)]).toEqual([0, [{ id, status: "failed", region: null }]]);
});

test("An unknown field ends with exit code 2, and the error lists the fields", () => {
  const r = at.svc("jobs", "--json", "id,stauts");
  expect(r.code).toBe(2);
  const { error } = JSON.parse(r.err);
  expect(error.message).toContain("has no field `stauts`");
  expect(error.hint).toContain("Did you mean status? The fields are id, status,");
});

test("A pipe gets region, price and tags before the reason, after the columns that it always had", () => {
  const row = at.svc("jobs").out.trimEnd().split("\t");
  expect(row).toHaveLength(15);
  expect(row.slice(0, 5)).toEqual([id, "failed", "3", "local", "cpu"]);
  expect(row.slice(11)).toEqual(["", "0", "", expect.stringContaining("exit code 3")]);
});
