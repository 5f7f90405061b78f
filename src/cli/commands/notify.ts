// `svc notify`: the targets and rules of notifications, a test message, and the history. notify/target-body.ts reads the words of a target,
// notify/desk.ts reaches the control plane, notify/print.ts prints.

import { safeField } from "../../domain/terminal-text.ts";
import { usage } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import type { Io } from "../io.ts";
import { printJson } from "../text.ts";
import { withNotifyDesk } from "./notify/desk.ts";
import { printHistory, printRules, printTargets } from "./notify/print.ts";
import { targetBodyOf } from "./notify/target-body.ts";

const VERBS = ["list", "add", "test", "rm", "rules", "history"] as const;
const SHOWN = 50;

export const notify: Command = {
  name: "notify",
  args: "[verb] [name] [...fields]",
  summary: "List, add, test or remove notification targets; set rules; show what was sent",
  options: [],
  exits: [
    ["3", "no such target"],
    ["4", "the target's secret is missing"],
    ["5", "control plane not reachable"],
  ],
  examples: [
    "svc notify",
    "svc notify add phone ntfy topic=my-long-random-topic",
    "svc notify add team slack < webhook-url.txt",
    "svc notify add mail email host=smtp.example.com from=me@example.com to=me@example.com secret",
    "svc notify test phone",
    'svc notify rules "waiting 30m" "loss is nan, stop"',
    "svc notify history",
  ],
  async run(input, io) {
    const [given = "list", name, ...fields] = input.args;
    const verb = VERBS.find((each) => each === given);
    if (verb === undefined)
      throw usage(`Unknown action \`svc notify ${safeField(given)}\`.`, `Use ${VERBS.join(", ")}.`);
    if ((verb === "list" || verb === "history") && name !== undefined)
      throw usage(`\`svc notify ${verb}\` takes no further arguments.`, `\`svc notify ${verb}\` lists everything.`);
    if (verb === "list")
      return withNotifyDesk(io, async (desk) => printTargets(await desk.overview(), input, io), READS);
    if (verb === "history")
      return withNotifyDesk(
        io,
        async (desk) => printHistory(await desk.deliveries({ limit: SHOWN }), input, io),
        READS,
      );
    if (verb === "rules") return rules(name === undefined ? [] : [name, ...fields], input, io);
    if (name === undefined) throw usage(`\`svc notify ${verb}\` needs NAME.`, "`svc notify` lists the targets.");
    return { add, rm, test }[verb](name, fields, input, io);
  },
};

/** They need no home, and make none. */
const READS = { onlyReads: true };

async function add(name: string, fields: string[], input: Input, io: Io): Promise<number> {
  const body = await targetBodyOf(fields, io);
  return withNotifyDesk(io, async (desk) => {
    const saved = await desk.save(name, body);
    if (input.json) await printJson(io, saved);
    else io.err(`Saved ${saved.name}. \`svc notify test ${saved.name}\` sends a test message.`);
    return 0;
  });
}

const rm = (name: string, _: string[], __: Input, io: Io): Promise<number> =>
  withNotifyDesk(
    io,
    async (desk) => {
      await desk.remove(name);
      io.err(`Removed ${safeField(name)}.`);
      return 0;
    },
    READS,
  );

const test = (name: string, _: string[], input: Input, io: Io): Promise<number> =>
  withNotifyDesk(
    io,
    async (desk) => {
      const tested = await desk.test(name);
      if (input.json) await printJson(io, tested);
      else io.err(`${safeField(name)} has accepted a test message after ${tested.seconds.toFixed(1)} s.`);
      return 0;
    },
    READS,
  );

/** Without lines it prints the rules; `none` removes them. */
const rules = (lines: string[], input: Input, io: Io): Promise<number> =>
  withNotifyDesk(
    io,
    async (desk) => {
      const now =
        lines.length === 0 ? (await desk.overview()).rules : await desk.setRules(lines.join() === "none" ? [] : lines);
      return printRules(now, input, io);
    },
    { onlyReads: lines.length === 0 },
  );
