import type { Command } from "../command.ts";

export const demo: Command = {
  name: "demo",
  args: "",
  summary: "Train a small network on this computer and show what svc does: the first thing to try",
  options: [],
  exits: [
    ["1", "the run did not succeed"],
    ["130", "interrupted; what the demo started is ended"],
  ],
  examples: ["svc demo"],
  async run() {
    const { runDemo } = await import("../demo.ts");
    const program = process.argv[1] ?? "";
    return runDemo({ argv: [process.execPath, ...process.execArgv, program], words: "svc" });
  },
};
