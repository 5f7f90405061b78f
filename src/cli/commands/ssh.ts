import { join } from "node:path";
import { SvcError } from "../../errors/index.ts";
import type { Command } from "../command.ts";
import { withJob } from "../store.ts";

export const ssh: Command = {
  name: "ssh",
  args: "<job>",
  summary: "Open a shell on the machine of a run",
  options: [],
  exits: [["3", "no such job"]],
  examples: ["svc ssh 4k2m"],
  run: (input, io) =>
    withJob(io, input.args[0] ?? "", async (reads, id) => {
      const provider = reads.job(id)?.provider;
      if (provider === "local")
        throw new SvcError("command_unavailable", {
          what: `Job ${id} is a local run: there is no machine to log in to.`,
          instead: `Its run directory is ${join(io.home(), "runs", id, "node0")}.`,
        });
      throw new SvcError("command_unavailable", {
        what: `This version of svc cannot open a shell on a machine of ${provider}.`,
        instead: "`svc logs -f` shows what the run prints.",
      });
    }),
};
