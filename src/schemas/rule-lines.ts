// Rules of notifications as a list of lines, checked: for a run's `notify` and for the registry.

import { z } from "zod";
import { parseNotifyRule, RULE_LENGTH_MAX, RULES_MAX } from "./notify-rule.ts";

const RuleLine = z
  .string()
  .max(RULE_LENGTH_MAX, `must be at most ${RULE_LENGTH_MAX} characters`)
  .superRefine((line, context) => {
    const rule = parseNotifyRule(line);
    if (typeof rule === "string") context.addIssue({ code: "custom", message: rule });
  });

export const RuleLines = z.array(RuleLine).max(RULES_MAX, `must be at most ${RULES_MAX} rules`);
