// Builds the command that starts the processes of a run on one node. docs/reference/training.md has the table.
//
// L1. One process is the script itself: no launcher, no RANK, because scripts take its presence to mean that there are
//     several.
// L2. Several are started by `torch.distributed.run` of the run's own Python. Ranks are static: rank 0 is on node 0.
// L3. An option that the job sets as PET_NAME is omitted here: on the command line it would win.
// L4. Restarts belong to the control plane: --max_restarts=0.

import { gpuCount, processCount } from "../../domain/gpus.ts";
import { launcherOf } from "../../domain/stop-grace.ts";
import type { Entrypoint } from "../../files/entrypoint.ts";
import type { RunSpec } from "../../schemas/spec.ts";

export interface LaunchInput {
  spec: Pick<RunSpec, "launcher" | "gpus" | "nodes" | "env" | "args">;
  entry: Entrypoint;
  python: string;
  /** Holds `svc/_launch.py`. */
  packageDir: string;
  node: number;
  /** The address at which ranks meet. */
  masterAddress: string;
  /** A run in place, on the user's own computer: the launcher starts as little as it can. */
  inPlace: boolean;
  /** Whether the install step created an environment with `python`: then its programs come first on PATH. */
  installed: boolean;
}

export type LaunchMode = "plain" | "auto" | "torchrun" | "ray";

/** The port at which ranks of several nodes meet. */
const MASTER_PORT = 29_500;

export function launchMode({ spec, entry, inPlace }: Pick<LaunchInput, "spec" | "entry" | "inPlace">): LaunchMode {
  const launcher = launcherOf(spec);
  // On the user's own computer a script starts Ray by itself; `ray start` could disturb one that runs there.
  if (launcher === "single" || (launcher === "ray" && inPlace)) return "plain";
  if (spec.launcher !== "auto") return launcher;
  // A shell script or a program starts its processes itself.
  return entry.kind === "python" || entry.kind === "module" ? "auto" : "plain";
}

/** The ranks that torchrun starts on one node; null if another program decides that. */
export function ranksOf(
  input: Pick<LaunchInput, "spec" | "entry" | "inPlace" | "node">,
): { first: number; count: number } | null {
  const mode = launchMode(input);
  if (mode !== "auto" && mode !== "torchrun") return null;
  const given = input.spec.env["PET_NPROC_PER_NODE"];
  const count = given === undefined ? processCount(input.spec.gpus) : /^[0-9]{1,3}$/.test(given) ? Number(given) : 0;
  return count > 0 ? { first: input.node * count, count } : null;
}

/** The argument vector for one node. */
export function launchArgv(input: LaunchInput): string[] {
  const { spec, entry, python } = input;
  const mode = launchMode(input);
  const plain = [...plainCommand(entry, python), ...spec.args];
  // One process on a CPU requires no check before it starts.
  const bare = !input.installed && spec.nodes === 1 && gpuCount(spec.gpus) === 0;
  if (mode === "plain" && (input.inPlace || bare)) return plain;
  const command = mode === "auto" || mode === "torchrun" ? [...torchrun(input), ...spec.args] : plain;
  return [python, "-u", `${input.packageDir}/svc/_launch.py`, mode, "--", ...command];
}

/** The command as a person would type it: without our launcher around it, and without the script's arguments. */
export function shownCommand(input: Omit<LaunchInput, "packageDir" | "installed">): string[] {
  const mode = launchMode(input);
  if (mode === "auto" || mode === "torchrun") return torchrun(input);
  return input.entry.kind === "sh" ? ["bash", input.entry.path] : plainCommand(input.entry, input.python);
}

function torchrun({
  spec,
  entry,
  python,
  node,
  masterAddress,
}: Pick<LaunchInput, "spec" | "entry" | "python" | "node" | "masterAddress">): string[] {
  const options: [name: string, value: string | null][] =
    spec.nodes === 1
      ? [["standalone", null]]
      : [
          ["nnodes", String(spec.nodes)],
          ["node_rank", String(node)],
          ["master_addr", masterAddress],
          ["master_port", String(MASTER_PORT)],
        ];
  options.push(["nproc_per_node", String(processCount(spec.gpus))], ["monitor_interval", "1"], ["max_restarts", "0"]);
  return [
    python,
    "-u",
    "-m",
    "torch.distributed.run",
    ...options
      .filter(([name]) => spec.env[`PET_${name.toUpperCase()}`] === undefined)
      .map(([name, value]) => (value === null ? `--${name}` : `--${name}=${value}`)),
    ...torchrunEntry(entry, python),
  ];
}

/** bash runs a script without a first line `#!…`, as a login shell would; sh does without bash. */
const BASH_OR_SH = 'command -v bash >/dev/null 2>&1 && exec bash "$@"; exec sh "$@"';

/** torchrun runs Python by itself and needs an option for other programs. */
function torchrunEntry(entry: LaunchInput["entry"], python: string): string[] {
  if (entry.kind === "python" && entry.words === undefined) return [entry.path];
  if (entry.kind === "module") return ["-m", entry.path];
  return ["--no_python", ...plainCommand(entry, python)];
}

function plainCommand(entry: LaunchInput["entry"], python: string): string[] {
  switch (entry.kind) {
    case "python":
      return [python, "-u", ...(entry.words ?? []), entry.path];
    case "module":
      return [python, "-u", "-m", entry.path];
    case "sh":
      return ["/bin/sh", "-c", BASH_OR_SH, "sh", entry.path];
    case "interpreter":
      return [...(entry.words ?? []), `./${entry.path}`];
    case "exec":
      return [`./${entry.path}`];
  }
}
