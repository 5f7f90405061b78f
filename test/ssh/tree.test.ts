// Trees on their way to a machine, with rsync and with tar, over a real sshd.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { SvcError } from "../../src/errors/index.ts";
import type { TreePush, TreePushed } from "../../src/providers/host.ts";
import { SshConnection } from "../../src/ssh/connection.ts";
import { HostKeyPins, keyOfLine } from "../../src/ssh/host-keys.ts";
import { loadSshKey, type SshKey } from "../../src/ssh/keys.ts";
import { tarOf } from "../../src/files/tar-writer.ts";
import type { TreeOptions } from "../../src/ssh/tree-options.ts";
import { pushTree } from "../../src/ssh/tree.ts";
import { keygen, relay, Sshd } from "./sshd.ts";

const never = new AbortController().signal;
const base = mkdtempSync(join(tmpdir(), "svc tree's "));
const pins = new HostKeyPins(base);
let key: SshKey;
let sshd: Sshd;
let connection: SshConnection;
let from: string;
let to: string;
let count = 0;

beforeAll(async () => {
  key = await loadSshKey({ path: null, home: base });
  sshd = await Sshd.start({ authorizedKeys: [key.publicKeyLine] });
  connection = reach(sshd, "m-1");
});
beforeEach(() => {
  count += 1;
  from = join(base, `from ${count}`);
  to = join(base, `machine's\n${count}`, "project");
  mkdirSync(from, { recursive: true });
});
afterAll(async () => {
  connection.close();
  await sshd.close();
  spawnSync("umount", [join(base, "small")]);
  rmSync(base, { recursive: true, force: true });
});

const reach = (to: Sshd, machine: string): SshConnection =>
  new SshConnection({ machine, endpoints: () => [to.endpoint], key: () => Promise.resolve(key), pins });

/** Writes a local file. By default all get one old time, like sent files. */
function put(path: string, content: string | Buffer, mode = 0o644, seconds = 1_500_000_000): void {
  mkdirSync(dirname(join(from, path)), { recursive: true });
  writeFileSync(join(from, path), content, { mode });
  chmodSync(join(from, path), mode);
  utimesSync(join(from, path), seconds, seconds);
}

function namesIn(folder: string): string[] {
  const entries = existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [];
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

/** Plain files below a folder with their contents. */
const filesIn = (folder: string): Map<string, string> =>
  new Map(namesIn(folder).map((name) => [name, readFileSync(join(folder, name), "base64")]));

function listed(): TreePush["files"] {
  return namesIn(from).map((path) => {
    const { size, mode } = statSync(join(from, path));
    return { path, size, executable: (mode & 0o100) !== 0 };
  });
}

function push(
  rsync: TreeOptions["rsync"],
  tree: Partial<TreePush> = {},
  more: Partial<TreeOptions> = {},
): Promise<TreePushed> {
  return pushTree({
    connection,
    machine: "m-1",
    endpoint: sshd.endpoint,
    key,
    pins,
    rsync,
    signal: never,
    ...more,
    tree: { from, to, files: listed(), mirror: true, ...tree },
  });
}

async function failure(promise: Promise<unknown>): Promise<SvcError> {
  const thrown = await promise.then(
    (value) => expect.unreachable(`it should have failed: ${JSON.stringify(value)}`),
    (e: unknown) => e,
  );
  return thrown as SvcError;
}

const HOSTILE = [
  "plain.py",
  "with space",
  "-rf",
  "--delete",
  "new\nline",
  "esc\u001b[31m",
  "tab\t",
  "quote'\"`",
  "back\\slash",
  "\\#012",
  "$(id)",
  "*",
  "?[a]",
  "#comment",
  ";semicolon",
  "ünïcödé",
  "日本語/🙂",
  "deep/er/and/deeper/x",
  "-dir/-file",
  ".hidden",
  "a:b",
  "~",
  "%s%n",
  "trailing ",
  "long".repeat(50),
  `${"folder".repeat(20)}/${"name".repeat(40)}`,
];

describe.each([
  ["rsync", "over the connection that stands", "standing"],
  ["rsync", "over an ssh of its own", "own"],
  ["tar", "over the connection that stands", null],
] as const)("by %s %s", (how, _, rsync) => {
  test("sends every file under its own name, whatever the name contains", async () => {
    for (const [i, name] of HOSTILE.entries()) put(name, `content ${i}`);
    put("empty", "");
    put("block", "x".repeat(512));
    put("large", randomBytes(1_000_001));
    put("bin/run.sh", "#!/bin/sh\n", 0o755);
    put("private", "p", 0o600);
    const told: number[] = [];
    const done = await push(rsync, { progress: ({ files }) => told.push(files) });
    const files = listed();
    expect(done).toMatchObject({ files: files.length, bytes: files.reduce((sum, { size }) => sum + size, 0) });
    expect(done.how).toMatch(new RegExp(`^${how}`));
    expect(done.sent_bytes).toBeGreaterThan(1_000_001);
    expect(told.at(-1)).toBe(files.length);
    expect(filesIn(to)).toEqual(filesIn(from));
    expect(statSync(join(to, "bin/run.sh")).mode & 0o777).toBe(0o755);
    expect(statSync(join(to, "plain.py")).mode & 0o777).toBe(0o644);
  });

  test("sends nothing twice, only files that changed here or there, and removes old ones", async () => {
    put("same", randomBytes(300_000));
    put("changed", randomBytes(300_000));
    put("gone/away/file", "g");
    put("gone/stays", "s");
    put("spoilt", "as it was");
    put("removed there", "r");
    await push(rsync);
    expect((await push(rsync)).sent_bytes).toBeLessThan(2_000);

    appendFileSync(join(from, "changed"), "and more");
    put("new", "n");
    rmSync(join(from, "gone/away"), { recursive: true });
    writeFileSync(join(to, "spoilt"), "something");
    rmSync(join(to, "removed there"));
    writeFileSync(join(to, "gone", "output of the run"), "o");
    const again = await push(rsync);
    // rsync sends only the changed part of a file; tar sends the file.
    expect(again.sent_bytes).toBeLessThan(rsync ? 20_000 : 320_000);
    const there = filesIn(to);
    expect(there.get("gone/output of the run")).toBeDefined();
    there.delete("gone/output of the run");
    expect(there).toEqual(filesIn(from));
    expect(existsSync(join(to, "gone/away"))).toBe(false);
    expect((await push(rsync)).sent_bytes).toBeLessThan(2_000);
  });

  test("removes only its own files", async () => {
    mkdirSync(join(to, "data"), { recursive: true });
    writeFileSync(join(to, "data", "theirs"), "t");
    const outside = join(base, `outside ${count}`);
    mkdirSync(outside);
    writeFileSync(join(outside, "file"), "o");
    put("data/ours", "1");
    put("link/file", "2");
    await push(rsync);
    // Our files are now somewhere else, behind a symlink of the run.
    rmSync(join(to, "link"), { recursive: true });
    symlinkSync(outside, join(to, "link"));
    rmSync(join(from, "data"), { recursive: true });
    rmSync(join(from, "link"), { recursive: true });
    put("only", "x");
    await push(rsync);
    expect(readFileSync(join(outside, "file"), "utf8")).toBe("o");
    rmSync(join(to, "link"));
    expect([...filesIn(to).keys()]).toEqual(["data/theirs", "only"]);
    rmSync(join(from, "only"));
    await push(rsync, { mirror: false });
    expect([...filesIn(to).keys()]).toEqual(["data/theirs", "only"]);
  });

  test("sends an empty tree, and removes a whole one again", async () => {
    expect(await push(rsync)).toMatchObject({ files: 0, bytes: 0 });
    expect(existsSync(to)).toBe(true);
    put("a/b/c", "1");
    await push(rsync);
    rmSync(join(from, "a"), { recursive: true });
    await push(rsync);
    expect(readdirSync(to)).toEqual([]);
  });

  test.each([true, false])("turns files into folders and back (mirror: %s)", async (mirror) => {
    put("x", "file");
    put("y/z", "file in folder");
    await push(rsync, { mirror });
    rmSync(join(from, "x"));
    rmSync(join(from, "y"), { recursive: true });
    put("x/inner", "now a folder");
    put("y", "now a file");
    await push(rsync, { mirror });
    expect(filesIn(to)).toEqual(filesIn(from));
  });

  test("fails if a local file is missing, or leads out of the tree", async () => {
    put("there", "1");
    const missing = { path: "missing", size: 3, executable: false };
    expect(await failure(push(rsync, { files: [...listed(), missing] }))).toMatchObject({ code: "sync_failed" });
    for (const path of ["../out", "/etc/passwd", "a/../../b", "", "a//b", "./a"]) {
      const e = await failure(push(rsync, { files: [{ path, size: 1, executable: false }] }));
      expect([path, e.code]).toEqual([path, "sync_failed"]);
    }
  });

  test("does not follow local symlinks", async () => {
    put("there", "1");
    symlinkSync("/etc/hostname", join(from, "secret"));
    const files = [...listed(), { path: "secret", size: statSync("/etc/hostname").size, executable: false }];
    expect((await failure(push(rsync, { files }))).code).toBe("sync_failed");
    expect(existsSync(join(to, "secret"))).toBe(false);
  });

  test("can be aborted in the middle, and resumes where it was", async () => {
    for (let i = 0; i < 6; i++) put(`part ${i}`, randomBytes(8_000_000));
    // The transfer still runs when the abort arrives, even late on a busy computer; the file takes no space here.
    put("zeros", Buffer.alloc(0));
    truncateSync(join(from, "zeros"), 4_000_000_000);
    const abort = new AbortController();
    const reason = new RangeError("enough");
    const begun = push(
      rsync,
      { progress: ({ bytes }) => bytes > 1_000_000 && abort.abort(reason) },
      { signal: abort.signal },
    );
    await expect(begun).rejects.toBe(reason);
    expect(spawnSync("pgrep", ["-f", "--", `^rsync .*${base}`]).stdout.toString()).toBe("");
    truncateSync(join(from, "zeros"), 1_000_000);
    await push(rsync);
    expect(filesIn(to)).toEqual(filesIn(from));
  });

  test("reports that the machine's disk is full", async () => {
    const small = join(base, "small");
    mkdirSync(small, { recursive: true });
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", small]).status === 0;
    if (!mounted) return expect(process.getuid?.() === 0, "only root can try this").toBe(false);
    put("too large", randomBytes(8_000_000));
    const e = await failure(push(rsync, { to: join(small, "project") }));
    spawnSync("umount", [small]);
    expect([e.code, e.message]).toEqual(["machine_disk_full", expect.stringContaining("the project does not fit")]);
  });

  test("finds a machine unfit on which the folder cannot be created: no other attempt would end better", async () => {
    writeFileSync(join(base, `occupied ${count}`), "");
    const e = await failure(push(rsync, { to: join(base, `occupied ${count}`, "project") }));
    expect([e.code, e.message]).toEqual(["machine_unfit", expect.stringContaining("Not a directory")]);
  });

  test("notices a cut connection, and can be repeated", async () => {
    const via = await relay({ host: sshd.address, port: sshd.port }, 20_000_000);
    const machine = `cut-${how}-${rsync}`;
    const endpoint = { ...sshd.endpoint, port: via.port };
    const link = new SshConnection({ machine, endpoints: () => [endpoint], key: () => Promise.resolve(key), pins });
    for (let i = 0; i < 4; i++) put(`part ${i}`, randomBytes(8_000_000));
    const options = { connection: link, machine, endpoint };
    expect((await failure(push(rsync, {}, options))).code).toBe("ssh_unreachable");
    await push(rsync, {}, options);
    expect(filesIn(to)).toEqual(filesIn(from));
    link.close();
    via.close();
  });
});

describe("by rsync", () => {
  test("sends nothing to a machine whose host key changed, or that refuses our key", async () => {
    const own = await Sshd.start({ authorizedKeys: [key.publicKeyLine] });
    try {
      const link = reach(own, "swapped");
      put("secret", "s");
      // The open connection was checked; OpenSSH makes its own.
      await link.ready(never);
      keygen(join(own.folder, "another"));
      pins.forget("swapped");
      pins.pin("swapped", keyOfLine(readFileSync(join(own.folder, "another.pub"), "utf8")) as Buffer);
      const options = { connection: link, machine: "swapped", endpoint: own.endpoint };
      expect((await failure(push("own", {}, options))).code).toBe("host_key_changed");
      pins.forget("swapped");
      pins.pin("swapped", keyOfLine(own.hostKeyLine) as Buffer);
      own.authorize();
      expect((await failure(push("own", {}, options))).code).toBe("ssh_refused");
      await own.stop();
      expect((await failure(push("own", {}, options))).code).toBe("ssh_unreachable");
      expect(filesIn(to).size).toBe(0);
      link.close();
    } finally {
      await own.close();
    }
  });

  const UNFIT: readonly [what: string, script: string, why: string][] = [
    ["a shell that greets", "echo 'Welcome!'; eval \"$SSH_ORIGINAL_COMMAND\"", "prints text at login"],
    [
      "no rsync after all",
      'case $SSH_ORIGINAL_COMMAND in rsync*) echo "bash: line 1: rsync: command not found" >&2; exit 127;; esac; eval "$SSH_ORIGINAL_COMMAND"',
      "does not work",
    ],
  ];
  const ways = UNFIT.flatMap((unfit) => (["standing", "own"] as const).map((rsync) => [...unfit, rsync] as const));
  test.each(ways)("falls back to tar if there is %s", async (_, script, why, rsync) => {
    const own = await Sshd.start({ authorizedKeys: [key.publicKeyLine], config: [`ForceCommand ${script}`] });
    try {
      const machine = `unclean-${why.replace(/\W/g, "")}-${rsync}`;
      const link = reach(own, machine);
      put("a", "1");
      put("b/c", "2");
      const options = { connection: link, machine, endpoint: own.endpoint };
      const done = await push(rsync, {}, options);
      expect(done.how).toMatch(new RegExp(`^tar .*${why}`));
      expect(filesIn(to)).toEqual(filesIn(from));
      expect((await push(rsync, {}, options)).sent_bytes).toBe(0);
      link.close();
    } finally {
      await own.close();
    }
  });
});

describe("an archive", () => {
  test.each([
    ["GNU tar", ["tar", "-xf", "-"]],
    [
      "Python",
      ["python3", "-c", "import sys,tarfile;tarfile.open(fileobj=sys.stdin.buffer,mode='r|').extractall('.')"],
    ],
    ["busybox", ["busybox", "tar", "-xf", "-"]],
  ])("is read by %s", async (_, [program = "", ...words]) => {
    if (spawnSync(program, ["--help"]).error) return expect(program).toBe("busybox");
    for (const [i, name] of HOSTILE.entries()) put(name, `content ${i}`);
    put("large", randomBytes(700_000));
    mkdirSync(to, { recursive: true });
    const child = spawn(program, words, { cwd: to, stdio: ["pipe", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (text: Buffer) => (said += text.toString()));
    for await (const part of tarOf(from, listed(), () => {})) child.stdin.write(part);
    child.stdin.end();
    await new Promise((resolve) => child.on("close", resolve));
    expect(said.replaceAll(/.*DeprecationWarning[^]*?\n.*\n/g, "")).toBe("");
    expect(filesIn(to)).toEqual(filesIn(from));
  });

  test("allows sizes beyond eight gigabytes", async () => {
    spawnSync("truncate", ["-s", "9G", join(from, "huge")]);
    const huge = { path: "huge", size: 9 * 2 ** 30, executable: false };
    const first = await tarOf(from, [huge], () => {}).next();
    const listing = spawnSync("tar", ["-tvf", "-"], { input: first.value as Buffer, encoding: "utf8" }).stdout;
    expect(listing).toMatch(/ 9663676416 /);
  });
});
