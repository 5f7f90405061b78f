// Listing the files of a project, as every plan and submission does, against git itself on the same tree.

import { execFileSync } from "node:child_process";
import { mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { listProject } from "../src/files/listing/project-listing.ts";
import { measureProject } from "../src/files/listing/measured-project.ts";
import { withFolder } from "./lib/home.ts";
import { rowOf, type Bench, type Row } from "./lib/measure.ts";

const FILES = 50_000;
const FOLDERS = 500;
const ROUNDS = 15;

function make(folder: string): void {
  for (let i = 0; i < FOLDERS; i++) mkdirSync(join(folder, `p${i % 20}`, `m${i}`), { recursive: true });
  for (let i = 0; i < FILES; i++)
    writeFileSync(join(folder, `p${i % 20}`, `m${i % FOLDERS}`, `f${i}.py`), `x = ${i}\n`);
  writeFileSync(join(folder, ".gitignore"), "*.pyc\n__pycache__/\nbuild/\n*.log\ndata/\n");
}

const git = (folder: string, ...args: string[]): Buffer =>
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: folder, maxBuffer: 1 << 28 });

async function timed(act: () => unknown): Promise<number> {
  const start = performance.now();
  await act();
  return performance.now() - start;
}

/** The longest time in milliseconds without a turn of the event loop during `act`. */
async function longestHold(act: () => Promise<void>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await act();
  delay.disable();
  return delay.max / 1e6;
}

async function measureIn(folder: string, how: "tracked" | "untracked"): Promise<Row[]> {
  const ours: number[] = [];
  const sizes: number[] = [];
  const theirs: number[] = [];
  const holds: number[] = [];
  // A control plane has listed before, so the compilation of the first listing is not measured.
  await listProject(folder);
  for (let round = 0; round < ROUNDS; round++) {
    theirs.push(await timed(() => git(folder, "ls-files", "-z", "-co", "--exclude-standard")));
    holds.push(
      await longestHold(async () => {
        ours.push(
          await timed(async () => {
            const { files } = await listProject(folder);
            if (files.length !== FILES + 1) throw new Error(`${files.length} files were listed`);
          }),
        );
      }),
    );
    sizes.push(await timed(() => measureProject(folder)));
  }
  const what = `50,000 files that git ${how === "tracked" ? "tracks" : "does not track"}`;
  return [
    rowOf({
      what: `${what}: listed`,
      unit: "ms",
      values: ours,
      baseline: theirs,
      target: "at most 1.3x of git ls-files",
      met: (figure, baseline) => figure <= 1.3 * baseline,
    }),
    rowOf({ what: `${what}: with their sizes`, unit: "ms", values: sizes, target: "", met: () => true }),
    rowOf({
      what: `${what}: the event loop is held for at most`,
      unit: "ms",
      values: holds,
      target: "at most 100 ms",
      met: (figure) => figure <= 100,
    }),
  ];
}

export const projectFiles: Bench = {
  name: "project-files",
  about: "50,000 files of a project listed as git lists them",
  measure: () =>
    withFolder(async (folder) => {
      const project = join(realpathSync(folder), "project");
      mkdirSync(project);
      make(project);
      git(project, "init", "-q");
      const untracked = await measureIn(project, "untracked");
      git(project, "add", "-A");
      git(project, "commit", "-qm", "one");
      return [...(await measureIn(project, "tracked")), ...untracked];
    }),
};
