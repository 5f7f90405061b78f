// Text of strangers on a terminal: both ways of printing it, for every character that a terminal may interpret.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { withOwnControlPlane } from "../../src/cli/control-plane.ts";
import type { Io } from "../../src/cli/io.ts";
import { OBEYED as OBEYED_CLASS, oneLine, safeField, toJson } from "../../src/domain/terminal-text.ts";
import { safeName } from "../../src/domain/file-names.ts";
import { plain } from "../../sdk/progress.ts";
import { terminalSafe } from "../../src/domain/log-lines.ts";

const OBEYED = [
  ...Array.from({ length: 0x20 }, (_, i) => i),
  ...Array.from({ length: 0x21 }, (_, i) => 0x7f + i),
  0x61c,
  0x200e,
  0x200f,
  ...Array.from({ length: 7 }, (_, i) => 0x2028 + i),
  ...Array.from({ length: 4 }, (_, i) => 0x2066 + i),
];
const shown = (text: string, code: number) => text.includes(String.fromCharCode(code));

it.each(OBEYED)("svc shows character %i as its code", (code) => {
  const text = `a${String.fromCharCode(code)}b`;
  expect(shown(safeField(text), code)).toBe(false);
  if (code !== 0x09 && code !== 0x0a) expect(shown(terminalSafe(text), code)).toBe(false);
  expect(shown(toJson({ text }), code)).toBe(false);
  expect(shown(safeName(text), code)).toBe(false);
  expect(oneLine(text)).toBe("a b");
  expect(JSON.parse(toJson({ text }, 2))).toEqual({ text });
});

it("src/domain/terminal-text.ts and python/svc/_errors.py have exactly these characters", () => {
  const all = Array.from({ length: 0xd800 }, (_, code) => code);
  const obeyed = new RegExp(`[${OBEYED_CLASS}]`);
  expect(all.filter((code) => obeyed.test(String.fromCharCode(code)))).toEqual(OBEYED);
  const script = `import json; from svc._errors import plain
print(json.dumps([c for c in range(0xd800) if c != 32 and plain("a" + chr(c) + "b") == "a b"]))`;
  const python = spawnSync("python3", ["-c", script], {
    env: { ...process.env, PYTHONPATH: join(import.meta.dirname, "../../python") },
    encoding: "utf8",
  });
  expect(JSON.parse(python.stdout)).toEqual(OBEYED);
});

it("the SDKs print none of them in a run's progress", () => {
  const text = OBEYED.map((code) => `a${String.fromCharCode(code)}b`).join("");
  expect(OBEYED.filter((code) => shown(plain(text), code) && code !== 0x20)).toEqual([]);
  const script = "import json, sys; from svc._progress import _plain; print(json.dumps(_plain(json.load(sys.stdin))))";
  const python = spawnSync("python3", ["-c", script], {
    input: JSON.stringify(text),
    env: { ...process.env, PYTHONPATH: join(import.meta.dirname, "../../python") },
    encoding: "utf8",
  });
  const said = JSON.parse(python.stdout) as string;
  expect(OBEYED.filter((code) => shown(said, code) && code !== 0x20)).toEqual([]);
});

it.each([
  "\u001b]0;title\u0007",
  "\u001b[2J",
  "\u001b[1;1H",
  "\u001b]8;;http://evil.example\u0007",
  "\u001bP+q\u001b\\",
  "\u009b31m",
  "\u001b[6n",
  "\u001b[?1049h",
])("svc makes the sequence %j harmless", (sequence) => {
  for (const safe of [safeField(sequence), terminalSafe(sequence)]) expect(safe).not.toMatch(/[\u001b\u009b\u0007]/);
});

it("The CLI replaces every such character in the output of a command's own control plane", async () => {
  const home = mkdtempSync(join(tmpdir(), "svc-terminal-"));
  const said: string[] = [];
  const io = { home: () => home, env: {}, err: (text: string) => void said.push(text) } as unknown as Io;
  const named = { cred_id: "a\u202eb", provider: "podhost", secret_ref: "literal://x" } as const;
  await withOwnControlPlane(io, "look", (cp) =>
    Promise.resolve(cp.credentials.configure({ registry: { credentials: [named] }, use: ["a\u202eb"], values: {} })),
  ).finally(() => rmSync(home, { recursive: true, force: true }));
  expect(said).toEqual([expect.stringContaining("credentials.a\\u202eb is a literal://")]);
});
