// Deliberate defects in how a run is started and followed: its command, its Python, its data, a full disk, its supervision. Each is named by
// the invariant of the head that it breaks, and has the tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const argv = single("launcher", "src/steps/launch/launcher-argv.ts", ["test/steps/launch/launcher-argv.test.ts"]);
const disk = single("disk watch", "src/steps/follow/disk-watch.ts", ["test/steps/follow/disk-watch.test.ts"]);
const watch = single("run watch", "src/steps/follow/run-watch.ts", ["test/steps/follow/run-watch.test.ts"]);
const looks = single("machine watch", "src/steps/rental/machine-watch.ts", ["test/steps/follow/run-watch.test.ts"]);
const sent = single("data", "src/steps/launch/place-data.ts", ["test/ssh/data.test.ts"]);
const grown = single("growing files", "src/steps/checkpoints/growing-files.ts", [
  "test/steps/checkpoints/growing-files.whole.test.ts",
]);
const python = single("local Python", "src/steps/launch/local-python.ts", ["test/steps/launch/local-python.test.ts"]);

export const RUNNING_MUTANTS: readonly TestedMutant[] = [
  argv(
    "L1: one process is started by a launcher",
    'if (mode === "plain" && (input.inPlace || bare)) return plain;',
    'if (mode === "plain" && bare && input.inPlace) return plain;',
  ),
  argv(
    "L1: `single` starts several processes",
    'return "plain";\n  if (spec.launcher',
    'return launcher === "single" ? "auto" : "plain";\n  if (spec.launcher',
  ),
  argv("L2: a rank depends on who comes first", '["node_rank", String(node)],', '["rdzv_backend", "c10d"],'),
  argv(
    "L3: the command line overrules the job's own option",
    ".filter(([name]) => spec.env[`PET_${name.toUpperCase()}`] === undefined)",
    ".filter(([name]) => spec.env[`PET_${name}`] === undefined)",
  ),
  argv("L4: torchrun restarts a script by itself", '["max_restarts", "0"]', '["max_restarts", "3"]'),
  disk("F1: a full disk is reported at every look", "if (full !== this.#full) {", "if (full || full !== this.#full) {"),
  disk(
    "F1: a report stays when there is room again",
    'full ? { kind: "disk_full", message: words } : null',
    '{ kind: "disk_full", message: words }',
  ),
  disk(
    "F2: a run that makes progress is ended",
    "if (moved || this.#full !== true) this.#movedAt = now;",
    "if (this.#full !== true) this.#movedAt = now;",
  ),
  disk("F2: a run without output stays on its machine", "|| now - this.#movedAt < STUCK_MS", "|| this.#movedAt <= now"),
  disk("F3: a quota is not noticed", " || (look?.disk_fault ?? null) !== null", ""),
  watch(
    "W1: the log is polled every few milliseconds while a checkpoint is downloaded",
    'const scanAt = this.#scanning || this.#run.stream !== "run"',
    'const scanAt = this.#run.stream !== "run"',
  ),
  looks(
    "V1: a silent provider is asked again and again",
    "if (!this.#looking && this.#ports.now()",
    "if (this.#ports.now()",
  ),
  looks(
    "V2: a listing that omits the machine ends the run",
    "if (isVerdict(cause) && !saysGone(cause))",
    "if (isVerdict(cause))",
  ),
  looks(
    "V3: the provider is not asked while files are sent",
    "await ports.pause(LOOK_EVERY_MS, until);",
    "await ports.pause(LOOK_EVERY_MS * 1e6, until);",
    ["test/steps/rental/machine-watch.test.ts"],
  ),
  looks(
    "V3: an upload that is ended for the price fails for another reason",
    "if (!context.signal.aborted) ended.signal.throwIfAborted();",
    "",
    ["test/steps/rental/machine-watch.test.ts"],
  ),
  looks(
    "V4: the machine of a node that waits for another one is not asked about",
    "await lookAtOtherNodes(this.#ports, this.#context);",
    "void lookAtOtherNodes;",
    ["test/steps/rental/machine-watch.test.ts"],
  ),
  sent(
    "D1: the digest of a file on the machine does not count",
    "{ root, files: filesOf(data), digests: true, drop: true, progress }",
    "{ root, files: filesOf(data), digests: false, drop: true, progress }",
    ["test/ssh/data.test.ts > data, without rsync"],
  ),
  sent(
    "D2: the data of a run on this computer is a folder of its own",
    "await symlink(first.path, at);",
    "await mkdir(at);",
    ["test/steps/launch/place-data.test.ts"],
  ),
  sent(
    "D3: a wrong file stays on the machine",
    "digests: true, drop: true, progress",
    "digests: true, drop: false, progress",
    ["test/ssh/data.test.ts > data, without rsync"],
  ),
  sent("D4: data that has changed is used", "await checkUnchanged(data);\n    const at =", "const at =", [
    "test/steps/launch/place-data.test.ts",
  ]),
  grown(
    "G1: a rewritten file is appended to old bytes",
    "for (const { start, end } of ranges) checks.push",
    "for (const { start, end } of ranges.slice(2)) checks.push",
  ),
  grown(
    "G2: a copy that changed while it was read is kept",
    "if (piece.bytes.length !== piece.size) return false;",
    "",
    ["test/steps/checkpoints/growing-files.whole.test.ts > a file that is overwritten"],
  ),
  grown(
    "G2: a changing file is copied at every scan",
    "this.#now() - known.copiedAtMs < STALE_MS) return null;",
    "this.#now() < known.copiedAtMs) return null;",
  ),
  grown(
    "G3: a torn copy takes the name of a complete file",
    "if (home?.isFile() && (SINGLE",
    "if (home?.isDirectory() && (SINGLE",
  ),
  grown("G4: each file has a request of its own", "const FILES_PER_REQUEST = 500;", "const FILES_PER_REQUEST = 1;"),
  python(
    "Y1: `python` of the spec comes before the script's first line",
    "if (named !== undefined) {",
    "if (named !== undefined && spec.python === undefined) {",
  ),
  python(
    "Y2: a symlink to the interpreter is followed",
    "return spec.python === undefined ? otherwise() : chosenPython(spec.python, projectDir, searchPathOf(spec, env), env);",
    'return spec.python === undefined\n    ? otherwise()\n    : (await import("node:fs/promises")).realpath(\n        await chosenPython(spec.python, projectDir, searchPathOf(spec, env), env),\n      );',
  ),
];
