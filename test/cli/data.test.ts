// `svc data` as processes, on a home that was never used.

import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Workplace } from "./serving.ts";

let at: Workplace;
beforeEach(() => void (at = new Workplace()));
afterEach(() => at.close());

test("data is added, listed, shown, verified and removed", () => {
  const folder = join(at.root, "set");
  mkdirSync(folder);
  for (const name of ["a", "b", "c"]) writeFileSync(join(folder, name), name);
  expect(at.svc("data", "ls")).toMatchObject({ code: 0, out: "", err: expect.stringContaining("does not exist") });
  const added = at.svc("data", "add", "set", "../set");
  expect([added.code, added.out]).toEqual([0, ""]);
  expect(added.err).toMatch(/^set: 3 files, 3 B, added\. sha256 [0-9a-f]{64}\n$/);
  expect(at.svc("data", "ls").out.split("\t").slice(0, 3)).toEqual(["set", "3", "3"]);
  expect(at.svc("data", "show", "set").out).toMatch(/^1\t[0-9a-f]{64}\ta\n1\t[0-9a-f]{64}\tb\n1\t/);
  expect(at.svc("data", "verify", "set", "--full")).toMatchObject({ code: 0, out: "" });
  writeFileSync(join(folder, "a"), "A");
  rmSync(join(folder, "b"));
  writeFileSync(join(folder, "d"), "d");
  const verified = at.svc("data", "verify", "set");
  expect([verified.code, verified.out]).toEqual([1, "changed\ta\tits content differs\nmissing\tb\t\nextra\td\t\n"]);
  expect(JSON.parse(at.svc("data", "verify", "set", "--json").out).reports[0]).toMatchObject({
    ok: false,
    extra: ["d"],
  });
  expect(at.svc("data", "rm", "set", "none").code).toBe(3);
  expect(readdirSync(join(at.home, "data"))).toEqual(["set.json"]);
  expect(at.svc("data", "rm", "set").code).toBe(0);
  expect(readdirSync(folder)).toEqual(["a", "c", "d"]);
  expect(at.svc("data", "verify", "set").code).toBe(3);
  expect(at.svc("data").err).toMatch(
    /^`svc data` needs an action[^\n]*\nWrite `svc data add NAME PATH…`, `svc data ls`, /,
  );
  for (const words of [
    [],
    ["lst"],
    ["add", "x"],
    ["verify"],
    ["ls", "--full"],
    ["add", "x", ""],
    ["add", "x", "../set", ""],
  ])
    expect([words, at.svc("data", ...words).code]).toEqual([words, 2]);
  for (const [words, said] of [
    [["add"], "`svc data add` needs NAME and PATH.\nWrite `svc data add NAME PATH…`.\n"],
    [["add", "x"], "`svc data add` needs PATH.\nWrite `svc data add NAME PATH…`.\n"],
    [["ls", "x"], "`svc data ls` takes no argument `x`.\nWrite `svc data ls`.\n"],
  ] as const)
    expect(at.svc("data", ...words).err).toBe(said);
});
