// Prints the limits of the home, what counts under them, and the runs that wait for room.

import { safeField } from "../../../domain/terminal-text.ts";
import { dollars } from "../../../errors/dollars.ts";
import { isMoney, LIMIT_NAMES, type LimitName } from "../../../schemas/limit-names.ts";
import type { HomeLimits } from "../../../schemas/limits.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { printJson, table } from "../../text.ts";

export async function printLimits(now: HomeLimits, input: Input, io: Io): Promise<void> {
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
  const { machines_without_price: unpriced } = now;
  if (unpriced > 0)
    io.err(
      `The price of ${unpriced === 1 ? "1 machine" : `${unpriced} machines`} is unknown: usd_per_hour does not count ${unpriced === 1 ? "it" : "them"} as used.`,
    );
  for (const name of LIMIT_NAMES) {
    const { limit, used, reserved } = now[name];
    if (limit !== null && used + (reserved ?? 0) > limit)
      io.err(
        `${name} is below what is used and reserved. Runs that are under way continue; no other starts until there is room.`,
      );
  }
}

const amountOf = (name: LimitName, amount: number | null, missing: string): string =>
  amount === null ? missing : isMoney(name) ? dollars(amount) : String(amount);
