import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { RunSpec, type RunSpecInput } from "../../../src/schemas/spec.ts";
import { stopGraceSeconds } from "../../../src/domain/stop-grace.ts";
import { launchArgv, launchMode, ranksOf, type LaunchInput } from "../../../src/steps/launch/launcher-argv.ts";
import {
  failedRank,
  failingLine,
  installWarnings,
  lastWords,
  missingLauncher,
  raised,
  startedAlone,
} from "../../../src/steps/launch/failure-message.ts";

const PY = "/usr/bin/python3";
const shim = (mode: string) => [PY, "-u", "/pkg/svc/_launch.py", mode, "--"];
const SH = ["/bin/sh", "-c", expect.stringContaining("exec bash") as string, "sh", "run.sh"];
const torchrun = (...options: string[]) => [PY, "-u", "-m", "torch.distributed.run", ...options];

function input(spec: Partial<RunSpecInput>, more: Partial<LaunchInput> = {}): LaunchInput {
  return {
    spec: RunSpec.parse({ entrypoint: "train.py", provider: "podhost", ...spec }),
    entry: { kind: "python", path: "train.py" },
    python: PY,
    packageDir: "/pkg",
    node: 0,
    masterAddress: "10.0.0.1",
    inPlace: false,
    installed: false,
    ...more,
  };
}
const argv = (spec: Partial<RunSpecInput>, more: Partial<LaunchInput> = {}) => launchArgv(input(spec, more));

describe("auto", () => {
  it("starts one process directly on a CPU, on one GPU after a check of the machine, and always directly on this computer", () => {
    const plain = [PY, "-u", "train.py", "--x"];
    expect(argv({ args: ["--x"] })).toEqual(plain);
    expect(argv({ args: ["--x"], gpus: "cpu:1" })).toEqual(plain);
    expect(argv({ args: ["--x"], gpus: "A100" })).toEqual([...shim("plain"), ...plain]);
    expect(argv({ args: ["--x"] }, { installed: true })).toEqual([...shim("plain"), ...plain]);
    expect(argv({ args: ["--x"], gpus: "cpu:1" }, { inPlace: true })).toEqual(plain);
  });

  it.each(["A100:4", "cpu:4"])("starts a process for each of %s", (gpus) => {
    const options = ["--standalone", "--nproc_per_node=4", "--monitor_interval=1", "--max_restarts=0"];
    expect(argv({ gpus, args: ["-a"] })).toEqual([...shim("auto"), ...torchrun(...options), "train.py", "-a"]);
    expect(argv({ gpus }, { entry: { kind: "module", path: "p.train" } }).slice(-3)).toEqual([
      "--max_restarts=0",
      "-m",
      "p.train",
    ]);
  });

  it("gives the nodes static ranks, the first of them on the first machine", () => {
    expect(argv({ gpus: "A100:8", nodes: 2 }, { node: 1 })).toEqual([
      ...shim("auto"),
      ...torchrun("--nnodes=2", "--node_rank=1", "--master_addr=10.0.0.1", "--master_port=29500"),
      "--nproc_per_node=8",
      "--monitor_interval=1",
      "--max_restarts=0",
      "train.py",
    ]);
  });

  it("lets shell scripts and programs start their processes themselves", () => {
    expect(argv({ gpus: "A100:4" }, { entry: { kind: "sh", path: "run.sh" } })).toEqual([...shim("plain"), ...SH]);
    expect(launchMode(input({ nodes: 2 }, { entry: { kind: "exec", path: "go" } }))).toBe("plain");
  });

  it("omits options that the job sets as PET variables", () => {
    const given = argv({
      gpus: "A100:4",
      env: { PET_NPROC_PER_NODE: "2", PET_STANDALONE: "0", PET_MAX_RESTARTS: "3" },
    });
    expect(given.slice(9)).toEqual(["--monitor_interval=1", "train.py"]);
  });
});

it("single starts one process, for any count", () => {
  expect(argv({ gpus: "A100:8", launcher: "single" })).toEqual([...shim("plain"), PY, "-u", "train.py"]);
  expect(argv({ gpus: "cpu:8", launcher: "single" })).toEqual([PY, "-u", "train.py"]);
});

it("torchrun is torchrun also for one process, and for programs other than Python", () => {
  expect(argv({ launcher: "torchrun" })).toEqual([
    ...shim("torchrun"),
    ...torchrun("--standalone", "--nproc_per_node=1", "--monitor_interval=1", "--max_restarts=0", "train.py"),
  ]);
  const sh = argv({ launcher: "torchrun" }, { entry: { kind: "sh", path: "run.sh" } });
  expect(sh.slice(-7)).toEqual(["--max_restarts=0", "--no_python", ...SH]);
});

it("torchrun starts a Python script itself, and as a process of its own if its first line has Python options", () => {
  const entry = { kind: "python", path: "train.py", words: ["-O"] } as const;
  expect(argv({ gpus: "A100:2" }, { entry }).slice(-5)).toEqual(["--no_python", PY, "-u", "-O", "train.py"]);
  expect(argv({ gpus: "cpu" }, { entry })).toEqual([PY, "-u", "-O", "train.py"]);
});

it("a script for an interpreter gets its arguments as the kernel would pass them", () => {
  const entry = { kind: "interpreter", path: "a.pl", words: ["/usr/bin/perl", "-w -T"] } as const;
  expect(argv({ args: ["x"] }, { entry })).toEqual(["/usr/bin/perl", "-w -T", "./a.pl", "x"]);
});

it("ray is one script on the first node, and on this computer only the script", () => {
  expect(argv({ launcher: "ray", nodes: 2 })).toEqual([...shim("ray"), PY, "-u", "train.py"]);
  expect(argv({ launcher: "ray" }, { inPlace: true })).toEqual([PY, "-u", "train.py"]);
});

it.each<[Partial<RunSpecInput>, number]>([
  [{}, 10],
  [{ gpus: "A100" }, 10],
  [{ gpus: "A100:2" }, 40],
  [{ nodes: 2 }, 40],
  [{ gpus: "A100:2", launcher: "single" }, 10],
  [{ launcher: "torchrun" }, 40],
  [{ launcher: "ray" }, 40],
  [{ stop_grace_seconds: 300 }, 300],
  [{ stop_grace_seconds: 0 }, 0],
  [{ stop_grace_seconds: 20, gpus: "A100:2" }, 20],
])("%j gets as long to end as its launcher needs: %d s", (spec, seconds) => {
  expect(stopGraceSeconds(input(spec).spec)).toBe(seconds);
});

describe("the launcher's last lines", () => {
  it("name the rank and the signal", () => {
    expect(failedRank("x\nsvc: rank 3 exited with code 7\n")).toEqual({ who: "rank 3", rank: 3, signal: null });
    expect(failedRank("svc: the script was ended by SIGKILL\n")).toEqual({ who: null, rank: null, signal: "SIGKILL" });
    expect(failedRank("svc: rank 3 (local rank 1 of node 1) was ended by SIGKILL\nbye")).toEqual({
      who: "rank 3 (local rank 1 of node 1)",
      rank: 3,
      signal: "SIGKILL",
    });
    expect(failedRank("rank 3 exited with code 7\nsvc: starting: rank 2 exited")).toBeNull();
  });

  it.each([
    ["x\nTraceback (most recent call last):\n  File\n    f()\nValueError: no: way.\nbye", null, "ValueError: no: way."],
    [
      "Traceback (most recent call last):\n  a\nKeyError: 1\nThe above\nTraceback (most recent call last):\n  b\nmy.Own",
      null,
      "my.Own",
    ],
    ["  File 'x.py', line 1\n    (\nSyntaxError: '(' was never closed\n", null, "SyntaxError: '(' was never closed"],
    // The echo on another rank, and a bar that had no line end.
    [
      "[rank1]: Traceback (most recent call last):\n[rank1]:   a\n[rank1]: OSError: mine\n[rank0]: Traceback (most recent call last):\n[rank0]:   b\n[rank0]: IOError: echo",
      1,
      "OSError: mine",
    ],
    [" 50%|█  Traceback (most recent call last):\n  a\nRuntimeError: x", 3, "RuntimeError: x"],
    ["svc: Ray: not all of 2 nodes joined within 300 s\n", null, "Ray: not all of 2 nodes joined within 300 s"],
    // An incomplete traceback yields no error text.
    ["Traceback (most recent call last):\n  cut off", null, null],
    ["[rank0]: Traceback (most recent call last):\n[rank0]: IOError: echo", 1, null],
    ["all is well: truly", null, null],
  ])("tell the exception of %j, rank %j: %j", (tail, rank, said) => {
    expect(raised(tail, rank)).toBe(said);
  });

  it("contain no control characters and end", () => {
    const tail = `Traceback (most recent call last):\n  a\nE: \x1b[31mred\t${"x".repeat(999)}`;
    expect(raised(tail, null)).toMatch(/^E: +\[31mred x{200,}…$/);
  });

  it.each([
    [
      "Collecting x\nERROR: No matching distribution found for x\n\n[notice] A new release of pip is available\n",
      "ERROR: No matching distribution found for x",
    ],
    [
      "error: subprocess-exited-with-error\n  × Building wheel for x did not run successfully.\n  ╰─> [1 lines of output]\n      gcc: no\n      [end of output]\n  note: This error originates from a subprocess\nERROR: Failed building wheel for x\n",
      "ERROR: Failed building wheel for x",
    ],
    [
      "Resolving\n  × No solution found when resolving dependencies:\n  ╰─▶ Because x was not found, it\n      cannot be had.\n",
      "No solution found when resolving dependencies: Because x was not found, it cannot be had.",
    ],
    [
      "Using Python 3.11\nerror: No solution found when resolving dependencies\n  cause: Because you require a and b, it cannot be.\n",
      "error: No solution found when resolving dependencies cause: Because you require a and b, it cannot be.",
    ],
    ["make: *** [all] Error 2\n", "make: *** [all] Error 2"],
    ["", "it printed nothing"],
  ])("tell the line of an installer that failed: %j", (tail, said) => {
    expect(failingLine(tail)).toBe(said);
  });

  it.each([
    [
      "usage: train.py [-h] [--epochs N]\ntrain.py: error: unrecognized arguments: --epoch 10\n",
      { words: "train.py: error: unrecognized arguments: --epoch 10", isTrouble: true },
    ],
    ["epoch 1\nError: no disk\ncleaning up\n\n", { words: "Error: no disk", isTrouble: true }],
    [
      "/usr/bin/env: 'fish': No such file or directory\n",
      { words: "/usr/bin/env: 'fish': No such file or directory", isTrouble: true },
    ],
    ["epoch 1\nepoch 2\n-----\n 50%|█████     | 5/10\n", { words: "epoch 2", isTrouble: false }],
    ["svc: starting: x\n", null],
    ["", null],
  ])("give the last line of substance of %j", (tail, said) => {
    expect(lastWords(tail)).toEqual(said);
  });

  it("repeat each of the installer's warnings once", () => {
    expect(
      installWarnings(
        "svc: warning: It could not be built.\nwarning: no\nsvc: x\nsvc: warning: It could not be built.\n",
      ),
    ).toEqual(["It could not be built."]);
  });

  it("name missing programs", () => {
    expect(missingLauncher("svc: launcher_missing: torchrun: torch is not installed for /p\n")).toEqual({
      launcher: "torchrun",
      why: "torch is not installed for /p",
    });
    expect(missingLauncher("launcher_missing: torchrun: no")).toBeNull();
  });
});

it("the launcher's report that it starts one process instead of several is understood", () => {
  const launcher = readFileSync(join(import.meta.dirname, "../../../python/svc/_launch.py"), "utf8");
  const said = /say\("(torch is not installed for %s: one plain process[^"]*)"/.exec(launcher)?.[1] ?? "";
  expect(startedAlone(`begin\nsvc: ${said.replace("%s", "/usr/bin/python3")}\nmore`)).toBe(true);
  expect(startedAlone(`it says svc: ${said}`)).toBe(false);
});

it.each<[Partial<RunSpecInput>, number, { first: number; count: number } | null]>([
  [{}, 0, null],
  [{ gpus: "A100:4" }, 0, { first: 0, count: 4 }],
  [{ gpus: "A100:4", nodes: 2 }, 1, { first: 4, count: 4 }],
  [{ gpus: "A100:4", env: { PET_NPROC_PER_NODE: "2" } }, 0, { first: 0, count: 2 }],
  [{ gpus: "A100:4", env: { PET_NPROC_PER_NODE: "gpu" } }, 0, null],
  [{ gpus: "A100:4", launcher: "single" }, 0, null],
  [{ gpus: "A100:4", launcher: "ray" }, 0, null],
])("%j on node %d has these ranks: %j", (spec, node, ranks) => {
  expect(ranksOf({ ...input(spec), node })).toEqual(ranks);
});
