// bin/svc in a separate checkout, whose program only prints how it was started.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "svc launcher ")));
  for (const folder of ["bin", "dist", "src/cli", "tools", "node_modules/.bin"])
    mkdirSync(join(root, folder), { recursive: true });
  copyFileSync(join(import.meta.dirname, "../../bin/svc"), join(root, "bin/svc"));
  chmodSync(join(root, "bin/svc"), 0o755);
  program("dist/cli.mjs", "built");
  writeFileSync(join(root, "package-lock.json"), "{}");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const program = (path: string, word: string): void =>
  writeFileSync(
    join(root, path),
    `console.log(JSON.stringify([${JSON.stringify(word)}, process.execPath, ...process.argv.slice(2)]))`,
  );
const FLAG = "--disable-sigusr1";
const fakeNode = (path: string, version: string, name: string): void => {
  writeFileSync(
    join(root, path),
    `#!/bin/sh\n[ "$1" = --version ] && { echo ${version}; exit; }\n[ "$1" = ${FLAG} ] && shift\necho "${name}: $*"\n`,
  );
  chmodSync(join(root, path), 0o755);
};
const TOOLS = "/usr/bin:/bin";
function svc(
  command: string,
  args: string[],
  env: Record<string, string> = {},
): { code: number | null; out: string; err: string } {
  const r = spawnSync(command, args, { env: { PATH: TOOLS, ...env }, encoding: "utf8", cwd: tmpdir() });
  return { code: r.status, out: r.stdout, err: r.stderr };
}

test("The launcher prefers SVC_NODE, and passes every argument exactly", () => {
  const args = ["jobs", "a b", "", "--", "*", "'\"$x"];
  const r = svc(join(root, "bin/svc"), args, { SVC_NODE: process.execPath });
  expect(r.err).toBe("");
  expect(JSON.parse(r.out)).toEqual(["built", process.execPath, ...args]);
});

test("The launcher gives no other user a debugger's port by SIGUSR1, from the first moment of any command", () => {
  writeFileSync(
    join(root, "dist/cli.mjs"),
    `process.kill(process.pid, "SIGUSR1");
     // Node opens the port in a thread, and says so.
     const { url } = await import("node:inspector");
     for (let i = 0; i < 30 && url() === undefined; i++) await new Promise((resolve) => setTimeout(resolve, 10));
     console.log(String(url()));`,
  );
  const r = svc(join(root, "bin/svc"), ["jobs"], { SVC_NODE: process.execPath });
  expect([r.out, r.err]).toEqual(["undefined\n", ""]);
});

test("The launcher gives a control plane less memory for short-lived objects, and other commands all of it", () => {
  writeFileSync(join(root, "dist/cli.mjs"), "console.log(JSON.stringify(process.execArgv))");
  const flags = (...args: string[]): string =>
    svc(join(root, "bin/svc"), args, { SVC_NODE: process.execPath }).out.trim();
  expect(flags("serve", "--port", "0")).toBe('["--disable-sigusr1","--max-semi-space-size=2"]');
  expect(flags("jobs", "serve")).toBe('["--disable-sigusr1"]');
});

test("The launcher takes the Node of its own checkout before the one on the PATH", () => {
  fakeNode("node_modules/.bin/node", "v24.0.0", "own");
  fakeNode("tools/node", "v24.0.0", "path");
  expect(svc(join(root, "bin/svc"), ["x"], { PATH: `${join(root, "tools")}:${TOOLS}` }).out).toBe(
    `own: ${root}/dist/cli.mjs x\n`,
  );
});

test("The launcher finds its checkout through a chain of relative and absolute links", () => {
  fakeNode("node_modules/.bin/node", "v24.0.0", "own");
  symlinkSync("../bin/svc", join(root, "tools/one"));
  symlinkSync(join(root, "tools/one"), join(root, "tools/two"));
  const want = `own: ${root}/dist/cli.mjs jobs\n`;
  expect(svc(join(root, "tools/two"), ["jobs"]).out).toBe(want);
  symlinkSync(join(root, "tools/two"), join(root, "tools/svc"));
  expect(svc("svc", ["jobs"], { PATH: `${join(root, "tools")}:${TOOLS}` }).out, "found on the PATH").toBe(want);
  expect(svc("sh", ["-c", `cd '${root}/bin' && CDPATH=/ ./svc jobs`]).out, "relative, with CDPATH").toBe(want);
});

test("runs the sources without a build, or on request", () => {
  fakeNode("node_modules/.bin/node", "v24.0.0", "own");
  expect(svc(join(root, "bin/svc"), [], { SVC_FROM_SOURCE: "1" }).out).toContain("src/cli/main.ts");
  rmSync(join(root, "dist/cli.mjs"));
  expect(svc(join(root, "bin/svc"), []).out).toContain("src/cli/main.ts");
});

test.each([
  ["v22.14.0", true],
  ["v22.13.1", false],
  ["v20.20.2", false],
  ["v23.0.0", true],
  ["v100.1.0", true],
  ["nonsense", false],
])("Node %s on the PATH: enough is %s", (version, enough) => {
  fakeNode("tools/node", version, "path");
  const r = svc(join(root, "bin/svc"), ["x"], { PATH: `${join(root, "tools")}:${TOOLS}` });
  expect(r.code).toBe(enough ? 0 : 1);
  if (enough) return expect(r.out).toContain("path: ");
  expect(r.err.trimEnd().split("\n")).toHaveLength(2);
  expect(r.err).toContain("22.14");
  expect(r.err).toContain("npm run setup");
});

test("An installed package without a lock file names npm as the way to a newer Node", () => {
  rmSync(join(root, "package-lock.json"));
  fakeNode("tools/node", "v20.20.2", "path");
  const r = svc(join(root, "bin/svc"), ["x"], { PATH: `${join(root, "tools")}:${TOOLS}` });
  expect(r.code).toBe(1);
  expect(r.err.trimEnd().split("\n")).toHaveLength(2);
  expect(r.err).toContain("npm install node@24");
  expect(r.err).not.toContain("npm run setup");
});

test("The launcher says in two lines what is missing without any Node", () => {
  mkdirSync(join(root, "empty"));
  for (const t of ["sh", "readlink"]) symlinkSync(`/bin/${t}`, join(root, "empty", t));
  const r = svc(join(root, "bin/svc"), ["jobs"], { PATH: join(root, "empty") });
  expect(r.code).toBe(1);
  expect(r.err.trimEnd().split("\n")).toHaveLength(2);
});

test("The launcher refuses an SVC_NODE that is not a program or too old, instead of using another", () => {
  fakeNode("node_modules/.bin/node", "v24.0.0", "own");
  fakeNode("tools/old", "v18.1.0", "old");
  for (const node of [join(root, "nowhere"), root, join(root, "tools/old")]) {
    const r = svc(join(root, "bin/svc"), ["jobs"], { SVC_NODE: node });
    expect([r.code, r.out]).toEqual([1, ""]);
    expect(r.err).toContain(`SVC_NODE names ${node}`);
  }
});
