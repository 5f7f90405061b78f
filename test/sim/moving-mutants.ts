// Deliberate defects in what svc decides about a run from its own lines, files and times, and in how a tree of files gets to its machine.
// Each is named by the head that states its invariant, and has the tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const stream = single("log stream", "src/domain/log-stream.ts", ["test/domain/log-stream.test.ts"]);
const progress = single("progress", "src/domain/progress.ts", ["test/domain/progress.test.ts"]);
const retention = single("old runs", "src/domain/retention.ts", ["test/domain/retention.test.ts"]);
const shebang = single("first line", "src/domain/shebang.ts", ["test/domain/shebang.test.ts"]);
const start = single("start times", "src/domain/start-times.ts", ["test/domain/start-times.test.ts"]);
const program = single("Python program", "src/platform/python-program.ts", ["test/runner/programs.test.ts"]);
const connection = single("ssh", "src/ssh/connection.ts", []);
const dial = single("ssh", "src/ssh/dial.ts", []);
const agent = single("ssh", "src/ssh/one-key-agent.ts", ["test/ssh/keys.test.ts > a key with a passphrase"]);
const manifest = single("tree", "src/ssh/tree-manifest.ts", ["test/ssh/tree-manifest.test.ts"]);
const tree = single("tree", "src/ssh/tree.ts", ["test/ssh/tree-manifest.test.ts"]);

/** A defect in a file that is not the one whose head states the invariant. */
const of = (rule: string, mutant: TestedMutant): TestedMutant => ({ ...mutant, rules: [rule] });

export const MOVING_MUTANTS: readonly TestedMutant[] = [
  of(
    "src/domain/idleness.ts I4",
    single("idleness", "src/steps/follow/run-watch.ts", [
      "test/steps/follow/run-watch.test.ts > a machine whose clock",
    ])(
      "I4: instants of this computer are compared with those of the machine",
      "const ahead = nowMs - Date.now();",
      "const ahead = 0;",
    ),
  ),
  stream(
    "S1: a record leaves its line break in the text",
    "start = from = newline + 1;",
    "start = newline + 1;\n    from = newline;",
  ),
  stream(
    "S3: a record that is cut within its beginning becomes text",
    "final ? bytes.length : bytes.length - beginning(bytes, from, needle);",
    "bytes.length;",
  ),
  stream(
    "S4: the beginning of a record is held back, however long it gets",
    "!final && bytes.length - start <= RECORD_BYTES_MAX",
    "!final",
  ),
  progress("P1: a ratio after any word is a mark", "`\\b(${UNIT})\\s{0,4}[:#=]", "`\\b(${UNIT}|\\w+)\\s{0,4}[:#=]"),
  progress("P1: the total of an argument does not count", "totals[unitOf(word)] ??= Number(next);", ""),
  progress(
    "P2: a run that resumed has done all of its steps since then",
    "const done = newest.done - (begin?.done ?? newest.done);",
    "const done = newest.done;",
  ),
  progress("P2: the bar within an epoch is the whole run", '["epoch", "step", ""]', '["", "step", "epoch"]'),
  progress("P3: one mark gives an estimate", "done > 0 && ms > 0 ?", "same.length > 0 ?"),
  retention("RT1: a run that is in use goes", "else if (rule.isInUse(one.run)) kept.in_use++;", ""),
  retention("RT1: an archived run goes", "ended.filter(({ run }) => !run.isArchived);", "ended;"),
  retention(
    "RT2: the end that a wrong clock wrote is believed",
    "if (run.created_at <= now) made = Math.max(made, run.created_at);",
    "",
  ),
  retention("RT3: time that nobody saw is age", "age - Math.min(", "age - 0 * Math.min("),
  shebang(
    "B1: the words after the interpreter are several arguments",
    'const argument = rest === "" ? null : rest;',
    'const argument = rest === "" ? null : (rest.split(" ")[0] ?? null);',
  ),
  shebang(
    "B1: the ending of the name comes before the first line",
    "if (shebang !== null && shebang.program !== null)",
    'if (shebang !== null && shebang.program !== null && !path.endsWith(".py"))',
  ),
  shebang(
    "B2: a Python script that may be executed starts its own Python",
    "if (PYTHON.test(name)) {",
    "if (PYTHON.test(name) && !executable) {",
  ),
  shebang("B2: a version in the first line does not count", "...(certain || versioned ?", "...(certain ?"),
  shebang(
    "B3: a text without an ending is a program",
    '{ kind: head.subarray(0, 1_024).includes(0) ? "exec" : "sh" };',
    '{ kind: "exec" };',
  ),
  start("S1: an earlier placement counts", "step.placement === last || (", "step.placement !== null || ("),
  start(
    "S2: the node that was ready first counts",
    'ms(b.started_at ?? "") > ms(a.started_at ?? "")',
    'ms(b.started_at ?? "") < ms(a.started_at ?? "")',
  ),
  start("S3: time between two steps has no owner", 'add("svc", at, start);', ""),
  start(
    "S3: a moment of two steps has two owners",
    'Math.max(at, ms(step.started_at ?? ""));',
    'ms(step.started_at ?? "");',
  ),
  start(
    "S4: a machine of unknown price costs nothing",
    "if (price === null) return null;",
    "if (price === null) continue;",
  ),
  start("S4: a machine costs before its order", "- Math.max(a, ms(created_at));", "- a;"),
  program("P1: a module comes as often as it is needed", 'if (state.get(name) === "done") return;', ""),
  program("P1: the program has no docstring", "[docstring, FUTURE, ...parts]", "[FUTURE, ...parts]"),
  of(
    "src/platform/python-program.ts P2",
    single("Python program", "runner/svc_agent/environment.py", ["test/runner/programs.test.ts"])(
      "P2: a module gives a name of another one a second name",
      "from .files import first_line, read_bytes",
      "from .files import first_line, read_bytes as read_bytes",
    ),
  ),
  of(
    "src/ssh/connection.ts S1",
    dial("S1: our key signs before the host key was checked", "return !changed;", "return true;", [
      "test/ssh/connection.test.ts > ends everything before a byte is sent if it changed",
    ]),
  ),
  of(
    "src/ssh/connection.ts S3",
    agent(
      "S3: every key of the agent is offered",
      "keys.filter((key) => blobOf(key).equals(this.#publicKey)),",
      "keys,",
    ),
  ),
  of(
    "src/ssh/connection.ts S3",
    dial("S3: the agent is forwarded", "agentForward: false,", "agentForward: key.privateKey === null,", [
      "test/ssh/keys.test.ts > a key with a passphrase",
    ]),
  ),
  connection(
    "S4: a machine that cannot be reached is reported as lost",
    'throw refused ?? new SvcError("ssh_unreachable", { machine, why, closed });',
    'throw refused ?? new SvcError("machine_lost", { provider: closed ? "" : why, machine });',
    ["test/ssh/connection.test.ts > is reported in plain words"],
  ),
  connection(
    "S5: a command that sshd does not accept on the connection fails",
    "if (!isFull(e) || this.#running === 0) throw e;",
    "if (!isFull(e) || this.#running >= 0) throw e;",
    ["test/ssh/connection.test.ts > several commands run at once"],
  ),
  of(
    "src/ssh/connection.ts S6",
    manifest(
      "S6: the greeting of a login shell is read as an answer",
      "return { pushed: parse(pushed),",
      "return { pushed: parse(Buffer.concat([parts[0] ?? pushed, pushed])),",
    ),
  ),
  of(
    "src/ssh/tree-manifest.ts M2",
    tree(
      "M2: the digest of a file is written before the file has arrived",
      "before.set(path, { digest: null, size, executable });",
      'before.set(path, {\n        digest: await (await import("../files/tar-writer.ts")).digestOf(tree.from, { path, size, executable }),\n        size,\n        executable,\n      });',
    ),
  ),
  tree(
    "T2: files that have arrived are sent again",
    "known(before, listed, digests), signal);",
    "known(before, listed), signal);",
  ),
  of(
    "src/ssh/tree.ts T3",
    manifest(
      "T3: names stand on a command line",
      "`${inTree}\\nxargs -0 rm -f -- || exit 72`",
      '`${inTree}\\nrm -f -- ${files.map((name) => `./${name}`).join(" ")} || exit 72`',
    ),
  ),
  {
    name: "tree T3: names travel between line breaks",
    rules: ["src/ssh/tree.ts T3"],
    patches: [
      { file: "src/ssh/tree-rsync.ts", find: '"--from0",', replace: "" },
      { file: "src/ssh/tree-rsync.ts", find: "`./${path}\\0`", replace: "`./${path}\\n`" },
    ],
    tests: ["test/ssh/tree.test.ts > sends every file under its own name"],
  },
];
