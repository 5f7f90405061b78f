// `svc limits`: what all runs of this home together may cost and hold. Showing reads the store; a change goes through the control plane or,
// if none runs, is made in this process.

import { dollars } from "../../errors/dollars.ts";
import { isMoney, LIMIT_NAMES, type LimitName } from "../../schemas/limit-names.ts";
import type { HomeLimits, LimitsChange } from "../../schemas/limits.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { usage } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { storeOfHome } from "../store.ts";
import { printJson, table } from "../text.ts";

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

async function shown(input: Input, io: Io): Promise<number> {
  const reads = await storeOfHome(io);
  try {
    if (reads !== null) await print(reads.limits(), input, io);
    else if (input.json) await printJson(io, await noLimits());
    else io.err("No run was ever started here, and no limit is set.");
  } finally {
    reads?.close();
  }
  return 0;
}

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
  await print(now, input, io);
  return 0;
}

const named = (text: string): LimitName => {
  const name = LIMIT_NAMES.find((each) => each === text);
  if (name === undefined) throw usage(`There is no limit ${safeField(text)}.`, `Use ${LIMIT_NAMES.join(", ")}.`);
  return name;
};

function changeOf(words: readonly string[]): LimitsChange {
  if (words.length === 0)
    throw usage("`svc limits set` needs a limit.", "For example `svc limits set usd_per_day=20 max_gpus=8`.");
  const entries = words.map((word) => {
    const [name = "", ...rest] = word.split("=");
    const text = rest.join("=").replace(/^\$/, "");
    const value = text === "none" ? null : Number(text);
    if (text.trim() === "" || (value !== null && !Number.isFinite(value)))
      throw usage(`${safeField(word)} is not LIMIT=NUMBER.`, "For example `usd_per_day=20`. Nothing was changed.");
    return [named(name), value];
  });
  return Object.fromEntries(entries) as LimitsChange;
}

const clearing = (words: readonly string[]): LimitsChange =>
  Object.fromEntries((words.length === 0 ? LIMIT_NAMES : words.map(named)).map((name) => [name, null]));

const amountOf = (name: LimitName, amount: number | null, missing: string): string =>
  amount === null ? missing : isMoney(name) ? dollars(amount) : String(amount);

async function print(now: HomeLimits, input: Input, io: Io): Promise<void> {
  if (input.json) return await printJson(io, now);
  const columns = [
    { title: "LIMIT" },
    { title: "AT MOST", right: true },
    { title: "USED", right: true },
    { title: "RESERVED", right: true },
    { title: "LEFT", right: true },
  ];
  const rows = LIMIT_NAMES.map((name) => {
    const { limit, used, reserved, left } = now[name];
    return [
      name,
      amountOf(name, limit, "none"),
      amountOf(name, used, ""),
      amountOf(name, reserved, "unknown"),
      limit === null ? "-" : amountOf(name, left, "unknown"),
    ];
  });
  await io.out(table(io, columns, rows));
  for (const { job_id, position, why } of now.waiting) io.err(`${position}. ${job_id} ${safeField(why)}.`);
  for (const name of LIMIT_NAMES) {
    const { limit, used, reserved } = now[name];
    if (limit !== null && used + (reserved ?? 0) > limit)
      io.err(
        `${name} is below what is used and reserved. Runs that are under way continue; no other starts until there is room.`,
      );
  }
}
