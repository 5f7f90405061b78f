// The manual page: every command is in it, and man reads it without a warning.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { manPage } from "../../scripts/lib/man-page.ts";
import type { Command } from "../../src/cli/command.ts";
import { allCommands } from "../../src/cli/commands/index.ts";
import { DEADLINE_MS } from "../deadline.ts";

const COMMANDS = await allCommands();

const folder = mkdtempSync(join(tmpdir(), "svc-man-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The page as a reader sees it: the first of these programs that is installed, or null. */
function shown(page: string): { program: string; text: string; warnings: string } | null {
  const file = join(folder, "svc.1");
  writeFileSync(file, page);
  const readers = [
    ["man", "--warnings=all", "-l", file],
    ["mandoc", "-W", "warning", "-T", "utf8", file],
    ["groff", "-man", "-Tutf8", "-ww", file],
  ];
  for (const [program = "", ...args] of readers) {
    const env = { ...process.env, MANWIDTH: "100", MANPAGER: "cat", MAN_KEEP_FORMATTING: "", LC_ALL: "C.UTF-8" };
    const { status, stdout, stderr } = spawnSync(program, args, { env, encoding: "utf8", timeout: DEADLINE_MS });
    // A system without manual pages may have a `man` that only says so.
    if (status !== 0 || !/SYNOPSIS/.test(stdout.replaceAll(/.[\b]/g, ""))) continue;
    // eslint-disable-next-line no-control-regex
    return { program, text: stdout.replaceAll(/.[\b]|\u001b\[[0-9;]*m/g, ""), warnings: stderr };
  }
  return null;
}

const tricky: Command = {
  name: "tricky",
  args: "<it's> [...more]",
  summary: ".Starts with a dot, has a \\backslash, “quotes” and `code`",
  options: [{ flags: "-n, --tail <n>", what: "'quoted' at the start", many: true }],
  exits: [["3", "no such job"]],
  examples: [".hidden", 'svc tricky "a b" --tail 3'],
  run: () => Promise.resolve(0),
};

test("The manual page has every command with its flags and examples, and no line that a reader of man(7) would take for a request", () => {
  const page = manPage([...COMMANDS, tricky], "1.2.3");
  for (const { name, options } of COMMANDS) {
    expect(page).toMatch(new RegExp(`^\\.SS "svc ${name.replaceAll("-", String.raw`\\-`)}[ "]`, "m"));
    for (const option of options)
      expect(page, `${name} ${option.flags}`).toContain(option.flags.split(/[ ,]/, 1)[0]?.replaceAll("-", "\\-"));
  }
  const requests = page.split("\n").flatMap((line) => /^[.'](\S*)/.exec(line)?.[1] ?? []);
  expect(new Set(requests)).toEqual(new Set(["TH", "SH", "SS", "TP", "PP", "EX", "EE", "B"]));
  expect(page).toMatch(/^[\n -~]+$/);
  expect(manPage(COMMANDS, "1.2.3")).toBe(manPage(COMMANDS, "1.2.3"));
});

test("man shows the page as it was written, without a warning", ({ skip }) => {
  const seen = shown(manPage([tricky, ...COMMANDS], "1.2.3"));
  if (seen === null) skip("needs man, mandoc or groff");
  const { text, warnings } = seen!;
  expect(warnings).toBe("");
  expect(text).toMatch(/svc - rent GPU machines/);
  expect(text).toMatch(/svc tricky <it's> \[\.\.\.more\]/);
  expect(text).toContain(".Starts with a dot, has a \\backslash, “quotes” and code.");
  expect(text).toMatch(/-n, --tail n\s+'quoted' at the start; may be repeated\./);
  expect(text).toMatch(/^ +\.hidden$/m);
  expect(text).toMatch(/^ +svc tricky "a b" --tail 3$/m);
  expect(text).toContain("svc 1.2.3");
});

test("npm installs the page that the build writes", () => {
  const { man, files } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8")) as {
    man: string;
    files: string[];
  };
  expect(files).toContain(man.replace(/^\.\//, ""));
});
