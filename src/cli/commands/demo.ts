// `svc demo`: the first command to try. The demo is in `src/cli/demo.ts`.

import type { Command } from "../command.ts";

export const demo: Command = {
  name: "demo",
  args: "",
  summary: "Train a small network on this computer and show what svc does; a good first command",
  options: [],
  exits: [
    ["1", "the run did not succeed"],
    ["130", "interrupted; the demo ends what it started"],
  ],
  examples: ["svc demo"],
  async run() {
    const { runDemo } = await import("../demo.ts");
    const program = process.argv[1] ?? "";
    return runDemo({ argv: [process.execPath, ...process.execArgv, program], words: "svc" });
  },
};
