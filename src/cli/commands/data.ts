// `svc data`: data sets that runs use by name. Its actions are in `data/`.

import { runAction } from "../actions.ts";
import type { Command } from "../command.ts";
import { add } from "./data/add.ts";
import { ls } from "./data/ls.ts";
import { rm } from "./data/rm.ts";
import { show } from "./data/show.ts";
import { verify } from "./data/verify.ts";

const ACTIONS = {
  add: { usage: "svc data add NAME PATH…", least: 2, most: Infinity, flags: ["follow-links"], run: add },
  ls: { usage: "svc data ls", least: 0, most: 0, flags: [], run: ls },
  show: { usage: "svc data show NAME", least: 1, most: 1, flags: [], run: show },
  verify: { usage: "svc data verify NAME…", least: 1, most: Infinity, flags: ["full"], run: verify },
  rm: { usage: "svc data rm NAME…", least: 1, most: Infinity, flags: [], run: rm },
};

export const data: Command = {
  name: "data",
  args: "[action] [...args]",
  summary: "Manage data sets that runs use by name: add NAME PATH…, ls, show NAME, verify NAME…, rm NAME…",
  options: [
    { flags: "--follow-links", what: "add: follow symlinks that point outside the folder" },
    { flags: "--full", what: "verify: re-hash every file, even unmodified ones" },
  ],
  exits: [["3", "no data of that name"]],
  examples: ["svc data add imagenet ~/datasets/imagenet", "svc data verify imagenet", "svc data ls --json"],
  completes: (before) => (before.length === 0 ? Object.keys(ACTIONS) : before[0] === "add" ? "files" : []),
  run: (input, io) => runAction("data", ACTIONS, input, io),
};
