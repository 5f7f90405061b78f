// `svc prune rule`: shows, sets and clears the rule by which the control plane removes old runs once an hour.

import { bytes } from "../../../domain/bytes.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import type { OldRuns, HomeRetention, RetentionRule } from "../../../schemas/retention.ts";
import { usage } from "../../argv.ts";
import type { Input } from "../../command.ts";
import { runningClient, withOwnControlPlane } from "../../control-plane.ts";
import type { Io } from "../../io.ts";
import { withStore } from "../../store.ts";
import { printJson } from "../../text.ts";

/** @param rule the rule of the options; null if none of them was given */
export async function pruneRule(
  verb: string | undefined,
  rule: RetentionRule | null,
  input: Input,
  io: Io,
): Promise<number> {
  if (verb !== undefined && verb !== "clear")
    throw usage(
      `Unknown action \`svc prune rule ${safeField(verb)}\`.`,
      "Write `svc prune rule` or `svc prune rule clear`.",
    );
  if (verb === "clear" && rule !== null)
    throw usage(
      "`svc prune rule clear` takes no options.",
      "Leave out --older-than to remove the rule, or `clear` to set one.",
    );
  const now = verb === "clear" ? await changed(null, io) : rule !== null ? await changed(rule, io) : await shown(io);
  if (input.json) {
    await printJson(io, now);
    return 0;
  }
  await io.out(`${ruleText(now.rule)}\n`);
  if (now.due !== null) await io.out(`${dueText(now.due)}\n`);
  if (now.doubt !== null) io.err(now.doubt);
  for (const { id, label, at, freed_bytes } of now.removed)
    await io.out(`${at.slice(0, 16)}Z\tremoved ${id}\t${bytes(freed_bytes)}\t${safeField(label ?? "-")}\n`);
  return 0;
}

const NONE: HomeRetention = { rule: null, set_at: null, looked_at: null, doubt: null, due: null, removed: [] };

const shown = async (io: Io): Promise<HomeRetention> => {
  const client = await runningClient(io);
  return client ? client.retention() : withStore(io, (reads) => reads?.retention(Date.now()) ?? NONE);
};

async function changed(rule: RetentionRule | null, io: Io): Promise<HomeRetention> {
  const client = await runningClient(io);
  return client
    ? client.setRetention({ rule })
    : withOwnControlPlane(io, "look", async (cp) => {
        const { checked } = await import("../../../api/field-errors.ts");
        const { RetentionChange } = await import("../../../schemas/retention.ts");
        return cp.retention.set(checked(RetentionChange, { rule }, "").rule);
      });
}

export const ruleText = (rule: RetentionRule | null): string => {
  if (rule === null) return "No rule: nothing is deleted by age.";
  const kept = [
    ...(rule.keep_best === null ? [] : [`the best by ${rule.keep_best}`]),
    ...(rule.keep_newest === null ? [] : [`the newest ${rule.keep_newest}`]),
  ];
  return `Once an hour, and each time it starts, the control plane deletes runs that ended more than ${rule.older_than} ago${kept.length > 0 ? `, except ${kept.join(" and ")}` : ""}.`;
};

const dueText = ({ count, bytes: size, unmeasured }: OldRuns): string =>
  `Due now: ${count} ${count === 1 ? "run" : "runs"}, ${bytes(size)}${unmeasured > 0 ? ` and ${unmeasured} of unknown size` : ""}.`;
