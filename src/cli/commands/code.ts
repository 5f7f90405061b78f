// `svc code`: the code of runs at their submission. Its actions are in `code/`.

import { runAction } from "../actions.ts";
import type { Command } from "../command.ts";
import { diff } from "./code/diff.ts";
import { ls } from "./code/ls.ts";
import { restore } from "./code/restore.ts";
import { show } from "./code/show.ts";

const ACTIONS = {
  ls: { usage: "svc code ls [JOB]", least: 0, most: 1, flags: ["left-out"], run: ls },
  show: { usage: "svc code show JOB [FILE]", least: 1, most: 2, flags: [], run: show },
  diff: { usage: "svc code diff JOB [JOB]", least: 1, most: 2, flags: ["dir", "stat", "exit-code"], run: diff },
  restore: { usage: "svc code restore JOB DIR", least: 2, most: 2, flags: ["force"], run: restore },
};

export const code: Command = {
  name: "code",
  args: "[action] [...args]",
  summary: "The code that runs were started with: ls [JOB], show JOB [FILE], diff JOB [JOB], restore JOB DIR",
  options: [
    {
      flags: "--left-out",
      what: "ls: list what is excluded from the code, and why; without JOB, for the current directory",
    },
    {
      flags: "--dir <dir>",
      what: "diff: compare with this directory (default: the run's project, or the current one if that is gone)",
    },
    { flags: "--stat", what: "diff: list only which files differ, and by how many lines" },
    { flags: "--exit-code", what: "diff: exit with code 1 when anything differs" },
    { flags: "--force", what: "restore: replace files that differ" },
  ],
  exits: [["3", "no such job, or it has no such file"]],
  examples: [
    "svc code ls 4k2m",
    "svc code ls --left-out",
    "svc code show 4k2m train.py",
    "svc code diff 4k2m",
    "svc code diff 4k2m 4k9x --stat",
    "svc code restore 4k2m ./as-it-was",
  ],
  completes: (before) => (before.length === 0 ? Object.keys(ACTIONS) : "jobs"),
  run: (input, io) => runAction("code", ACTIONS, input, io),
};
