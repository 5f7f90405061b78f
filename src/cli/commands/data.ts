import { SvcError } from "../../errors/index.ts";
import { nearest, usage } from "../argv.ts";
import type { Command } from "../command.ts";

const ACTIONS = ["add", "ls", "show", "verify", "rm"];

export const data: Command = {
  name: "data",
  args: "<action> [...names]",
  summary: "Data manifests (not in this version)",
  options: [],
  examples: ["svc data ls"],
  async run(input) {
    const action = input.args[0] ?? "";
    if (!ACTIONS.includes(action)) {
      const near = nearest(action, ACTIONS);
      throw usage(
        `There is no \`svc data ${action}\`.`,
        `${near ? `Did you mean ${near}? ` : ""}It is one of ${ACTIONS.join(", ")}.`,
      );
    }
    throw new SvcError("command_unavailable", {
      what: "This version of svc does not keep data manifests.",
      instead: "Put the files into project_dir, or have the script fetch them. Nothing was changed.",
    });
  },
};
