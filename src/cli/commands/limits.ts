// `svc limits`: what all runs of this home together may cost and hold. Showing reads the store; a change goes through the control plane or,
// if none runs, is made in this process. limits/change.ts reads the words, limits/print.ts prints.

import { safeField } from "../../domain/terminal-text.ts";
import type { HomeLimits, LimitsChange } from "../../schemas/limits.ts";
import { usage } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { withStore } from "../store.ts";
import { printJson } from "../text.ts";
import { changeOf, clearing } from "./limits/change.ts";
import { printLimits } from "./limits/print.ts";

export const limits: Command = {
  name: "limits",
  args: "[verb] [...limits]",
  summary: "Show, set or clear what all runs together may cost and hold",
  options: [],
  exits: [["5", "control plane not reachable"]],
  examples: [
    "svc limits",
    "svc limits set usd_per_day=20 max_gpus=8",
    "svc limits clear usd_per_day",
    "svc limits clear",
  ],
  async run(input, io) {
    const [verb = "show", ...words] = input.args;
    if (verb === "show") return await shown(input, io);
    if (verb === "set") return await changed(changeOf(words), input, io);
    if (verb === "clear") return await changed(clearing(words), input, io);
    throw usage(`Unknown action \`svc limits ${safeField(verb)}\`.`, "Use show, set or clear.");
  },
};

const shown = (input: Input, io: Io): Promise<number> =>
  withStore(io, async (reads) => {
    if (reads !== null) await printLimits(reads.limits(), input, io);
    else if (input.json) await printJson(io, await noLimits());
    else io.err("No run was ever started here, and no limit is set.");
    return 0;
  });

/** The limits of a home that was never used. */
async function noLimits(): Promise<HomeLimits> {
  const { readHomeLimits } = await import("../../store/limit-reads.ts");
  return readHomeLimits(() => [], Date.now());
}

async function changed(change: LimitsChange, input: Input, io: Io): Promise<number> {
  const client = await runningClient(io);
  const now = client
    ? await client.setLimits(change)
    : await withOwnControlPlane(io, "look", async (cp) => {
        const { checked } = await import("../../api/field-errors.ts");
        const { LimitsChange: Schema } = await import("../../schemas/limits.ts");
        return cp.setLimits(checked(Schema, change, ""));
      });
  await printLimits(now, input, io);
  return 0;
}
