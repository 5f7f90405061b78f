// Prints the targets, the rules and the history of `svc notify`.

import { safeField } from "../../../domain/terminal-text.ts";
import type { Deliveries, Notifications } from "../../../schemas/notify.ts";
import type { Input } from "../../command.ts";
import type { Io } from "../../io.ts";
import { instant, printJson, table } from "../../text.ts";

export async function printTargets(
  { targets, rules, registry_rules: fixed }: Notifications,
  input: Input,
  io: Io,
): Promise<number> {
  if (input.json) {
    await printJson(io, { targets, rules, registry_rules: fixed });
    return 0;
  }
  if (targets.length === 0) io.err("There is no target. `svc notify add phone ntfy topic=…` adds one.");
  else
    await io.out(
      table(
        io,
        [
          { title: "NAME" },
          { title: "KIND" },
          { title: "WAITING", right: true },
          { title: "LAST SENT" },
          { title: "ERROR" },
        ],
        targets.map((each) => [
          each.name,
          each.kind,
          String(each.waiting),
          instant(io, each.last_sent_at),
          safeField(each.error ?? ""),
        ]),
      ),
    );
  for (const line of rules) io.err(`rule: ${safeField(line)}`);
  for (const line of fixed) io.err(`rule of configure(): ${safeField(line)}`);
  return 0;
}

export async function printHistory({ deliveries }: Deliveries, input: Input, io: Io): Promise<number> {
  if (input.json) await printJson(io, { deliveries });
  else if (deliveries.length === 0) io.err("svc has not sent anything yet.");
  else
    await io.out(
      table(
        io,
        [
          { title: "AT" },
          { title: "TARGET" },
          { title: "STATE" },
          { title: "TRIES", right: true },
          { title: "TITLE" },
          { title: "ERROR" },
        ],
        deliveries.map((each) => [
          instant(io, each.created_at),
          each.target,
          each.state,
          String(each.attempts),
          safeField(each.title),
          safeField(each.error ?? ""),
        ]),
      ),
    );
  return 0;
}

export async function printRules(rules: readonly string[], input: Input, io: Io): Promise<number> {
  if (input.json) await printJson(io, { rules });
  else if (rules.length === 0) io.err("There are no rules.");
  else await io.out(rules.map((line) => `${safeField(line)}\n`).join(""));
  return 0;
}
