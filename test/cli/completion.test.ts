// Completion in real shells on a terminal: what the line becomes after Tab.

import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CLI, until, Workplace } from "./serving.ts";

/**
 * Runs a shell on a terminal, types a line, presses Tab, and ends it with Return once `svc completion` has answered,
 * which makes the file `done`; prints what the line printed.
 */
const TYPE = `import os, pty, re, select, sys, time
done, setup, line, *argv = sys.argv[1:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(argv[0], argv)
seen = b""
def read(until, seconds=45):
    global seen
    end = time.monotonic() + seconds
    while time.monotonic() < end and not re.search(until, seen):
        if select.select([fd], [], [], 0.1)[0]:
            try:
                part = os.read(fd, 4096)
            except OSError:
                break
            if b"\\x1b[c" in part or b"\\x1b[0c" in part:
                os.write(fd, b"\\x1b[?6c")
            if b"\\x1b[6n" in part:
                os.write(fd, b"\\x1b[1;1R")
            seen += part
    return bool(re.search(until, seen))
def send(text):
    os.write(fd, text.encode())
send(setup + "; echo rea''dy\\r")
assert read(rb"ready"), seen
time.sleep(0.3)
seen = b""
if os.path.exists(done):
    os.remove(done)
send(line + "\\t")
end = time.monotonic() + 45
while not os.path.exists(done) and time.monotonic() < end:
    read(rb"(?!)", 0.05)
send("\\r")
assert read(rb"GOT<[^>$]*>END"), seen
print(re.search(rb"GOT<([^>$]*)>END", seen).group(1).decode())
os.write(fd, b"\\x04exit\\r")
os.close(fd)
`;

let at: Workplace;
let id: string;
let folder: string;
let done: string;

beforeAll(async () => {
  at = new Workplace();
  at.file("train.py", "import time\\nprint('x')\\n".replaceAll("\\n", "\n"));
  const served = await at.serve();
  id = await at.submit(served, "train.py");
  await until(async () => (await at.status(served, id)) === "succeeded", "the run has succeeded");
  folder = join(at.root, "bin");
  mkdirSync(folder);
  done = join(at.root, "done");
  // With words of completion it is svc; any other line shows its arguments.
  writeFileSync(
    join(folder, "svc"),
    `#!/bin/sh
if [ "$1" = completion ]; then
  '${CLI}' "$@"
  [ "$3" != -- ] || : >'${done}'
  exit
fi
printf 'GOT<%s>END\\n' "$*"
`,
  );
  chmodSync(join(folder, "svc"), 0o755);
});
afterAll(() => at.close());

const lines = (...words: string[]): string[] =>
  at
    .svc("completion", "bash", "--", ...words)
    .out.split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split("\t")[0] ?? "");

describe("the offered words", () => {
  test("are commands, flags, values, fields and ids, each where it belongs", () => {
    expect(lines("lo")).toEqual(["logs"]);
    expect(lines("jobs", "--sta")).toEqual(["--status"]);
    expect(lines("jobs", "--status", "su")).toEqual(["succeeded"]);
    expect(lines("jobs", "--status=su")).toEqual(["--status=succeeded"]);
    expect(lines("jobs", "--status", "=", "su")).toEqual(["--status=succeeded"]);
    expect(lines("jobs", "--json", "id,lab")).toEqual(["id,label"]);
    expect(lines("plan", "--provider", "mar")).toEqual(["market"]);
    expect(lines("code", "sh")).toEqual(["show"]);
    expect(lines("credentials", "set", "pod")).toEqual(["podhost"]);
    expect(lines("docs", "guide/q")).toEqual(["guide/quickstart"]);
    expect(lines("logs", "")).toEqual([id]);
    expect(lines("logs", "-n", "5", "")).toEqual([id]);
    expect(lines("rm", "")).toEqual([id]);
    expect(lines("code", "show", "")).toEqual([id]);
    // The run has ended: there is nothing to kill.
    expect(lines("kill", "")).toEqual([]);
    expect(lines("plan", "")).toEqual([":files"]);
    expect(lines("nonsense", "")).toEqual(lines(""));
  });

  test("an unused home offers no ids and is not created", () => {
    const r = at.svcIn(join(at.root, "none"), "completion", "bash", "--", "logs", "");
    expect(r).toEqual({ code: 0, out: "", err: "" });
  });

  test("an unknown shell is refused with the known ones", () => {
    const r = at.svc("completion", "tcsh");
    expect([r.code, r.err]).toEqual([2, expect.stringContaining("bash, zsh, fish")]);
  });
});

const SHELLS: [shell: string, setup: string, argv: string[]][] = [
  ["bash", "PS1=; source <(svc completion bash)", ["bash", "--norc", "--noprofile", "-i"]],
  ["zsh", "PS1=; source <(svc completion zsh)", ["zsh", "-f", "-i"]],
  ["fish", "svc completion fish | source", ["fish", "--no-config", "-i"]],
];

describe.each(SHELLS)("%s", (shell, setup, argv) => {
  test.each([
    ["jo", "jobs"],
    ["logs -n 5 ", "logs -n 5 ID"],
    ["jobs --status succ", "jobs --status succeeded"],
    ["jobs --status=succ", "jobs --status=succeeded"],
  ])(`completes \`svc %s\``, { tags: `needs/${shell}` }, (typed, want) => {
    const env = {
      ...at.env,
      PATH: `${folder}:${process.env["PATH"]}`,
      HOME: at.root,
      TMPDIR: at.root,
      TERM: "xterm",
      COLUMNS: "200",
    };
    const r = spawnSync("python3", ["-c", TYPE, done, setup, `svc ${typed}`, ...argv], {
      env,
      encoding: "utf8",
      cwd: at.project,
    });
    expect(r.stdout.trim(), r.stderr).toBe(want.replace("ID", id));
  });
});

test("zsh completes nothing from a folder that other users can write", { tags: "needs/zsh" }, () => {
  const planted = join(at.root, "planted");
  mkdirSync(planted);
  writeFileSync(join(planted, "_planted"), "#compdef planted\n");
  chmodSync(planted, 0o777);
  const script =
    'fpath=($1 $fpath); source <(svc completion zsh); print -r -- "${_comps[planted]-none} ${_comps[svc]-none}"';
  const env = { ...at.env, PATH: `${folder}:${process.env["PATH"]}`, HOME: at.root, ZDOTDIR: at.root };
  const completes = (): string => {
    const r = spawnSync("zsh", ["-f", "-c", script, "zsh", planted], { env, encoding: "utf8", input: "" });
    return r.stdout.trim();
  };
  expect(completes()).toMatch(/^none [^n]/);
  chmodSync(planted, 0o755);
  rmSync(join(at.root, ".zcompdump"), { force: true });
  expect(completes()).toMatch(/^_planted [^n]/);
});
