// `svc set`: changes the limits, the label or the tags of a run, through the control plane or, if none runs, in this process.

import { dollars, exactDollars } from "../../errors/dollars.ts";
import type { JobChange } from "../../schemas/change.ts";
import type { JobRecord } from "../../schemas/job.ts";
import { tagsAfter } from "../../schemas/tag-words.ts";
import { usage, value } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import { withJob } from "../store.ts";
import { printJson } from "../text.ts";

const NONE = "none";

export const set: Command = {
  name: "set",
  args: "<job>",
  summary: "Change the budget, the time limit, the price cap, the label or the tags of a run",
  options: [
    { flags: "--budget-usd <usd>", what: "Dollars for all that the run costs; `none` removes the budget" },
    { flags: "--max-runtime <minutes>", what: "Minutes that the script may run; `none` removes the limit" },
    { flags: "--price-cap <usd>", what: "Dollars per hour; `none` removes the cap" },
    { flags: "--label <text>", what: "A name for people; an empty text removes it", empty: true },
    { flags: "--tags <tags>", what: "All tags, separated by commas; an empty text removes them", empty: true },
    { flags: "--tag <tag>", what: "Adds this tag; may be repeated", many: true },
    { flags: "--untag <tag>", what: "Removes this tag; may be repeated", many: true },
  ],
  exits: [
    ["3", "no such job (nothing was changed)"],
    ["5", "control plane not reachable"],
  ],
  examples: [
    "svc set 4k2m --budget-usd 20",
    "svc set last --max-runtime none --label baseline",
    "svc set last --tag paper --untag draft",
  ],
  async run(input, io) {
    const given = changeOf(input);
    const [id, before] = await withJob(io, input.args[0] ?? "", (reads, found) => [
      found,
      reads.job(found)?.tags ?? [],
    ]);
    const change = { ...given, ...tagsOf(input, before) };
    const client = await runningClient(io);
    const record = client ? await client.update(id, change) : await withOwnControlPlane(io, "look", own(id, change));
    if (input.json) await printJson(io, record);
    else await io.out(`${record.id}\t${limitsOf(record)}\n`);
    return 0;
  },
};

const own =
  (id: string, change: JobChange) => async (cp: { change(id: string, change: JobChange): Promise<JobRecord> }) => {
    const { checked } = await import("../../api/field-errors.ts");
    const { JobChange: Schema } = await import("../../schemas/change.ts");
    return cp.change(id, checked(Schema, change, ""));
  };

/** All tags that the run has after this command; nothing if it names none. */
function tagsOf({ values }: Input, before: readonly string[]): Pick<JobChange, "tags"> {
  const [all, added = [], removed = []] = [values.get("tags")?.[0], values.get("tag"), values.get("untag")];
  if (all === undefined && added.length + removed.length === 0) return {};
  const from = all === undefined ? before : all.split(",").filter((tag) => tag.trim() !== "");
  return { tags: tagsAfter(from, added, removed) };
}

function changeOf(input: Input): JobChange {
  const label = value(input, "label");
  const fields = {
    budget_usd: amount(input, "budget-usd"),
    max_runtime_minutes: amount(input, "max-runtime"),
    price_cap: amount(input, "price-cap"),
    label: label?.trim() === "" ? null : label,
  };
  const change = Object.fromEntries(Object.entries(fields).filter(([, given]) => given !== undefined)) as JobChange;
  if (Object.keys(change).length === 0 && !["tags", "tag", "untag"].some((name) => input.values.has(name)))
    throw usage(
      "`svc set` needs something to change.",
      "Write `svc set JOB --budget-usd 20`; `svc set --help` lists the rest.",
    );
  return change;
}

/** Undefined if the flag was left out, null for `none`. The control plane checks the bounds. */
function amount(input: Input, name: string): number | null | undefined {
  const text = value(input, name);
  if (text === undefined) return undefined;
  if (text === NONE) return null;
  const number = Number(text.replace(/^\$/, ""));
  if (text.trim() === "" || !Number.isFinite(number))
    throw usage(`--${name} needs a number or \`none\`, not ${JSON.stringify(text)}.`, "Nothing was changed.");
  return number;
}

function limitsOf({ budget_usd, spent_usd, spec, label, tags }: JobRecord): string {
  const minutes = spec["max_runtime_minutes"];
  const cap = spec["price_cap"];
  return [
    budget_usd === null
      ? "no budget"
      : `budget ${exactDollars(budget_usd)}${spent_usd === null ? "" : `, ${dollars(spent_usd, budget_usd)} spent`}`,
    typeof minutes === "number" && minutes > 0 ? `at most ${minutes} minutes` : "no time limit",
    typeof cap === "number" ? `at most ${exactDollars(cap)}/h` : "no price cap",
    ...(label === null ? [] : [label]),
    ...(tags.length === 0 ? [] : [`tags ${tags.join(", ")}`]),
  ].join("; ");
}
