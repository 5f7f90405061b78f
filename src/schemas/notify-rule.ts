// The rules by which svc reports something about a run, each one line of text: the same in a run's `notify`, for the
// whole home, on the command line and in a form.
//
//     waiting 30m             no machine for the run within this time
//     no checkpoint 60m       no checkpoint was saved for this time
//     loss > 10               also >=, <, <=
//     loss is nan             NaN or an infinity
//     loss silent 20m         no value for this time
//
// `, stop` at the end also ends the run, with its checkpoints and its log downloaded as after a kill.

export type NotifyRule = { text: string; stop: boolean } & (
  | { kind: "waiting" | "no_checkpoint"; minutes: number }
  | { kind: "silent"; metric: string; minutes: number }
  | { kind: "above"; metric: string; bound: number; or_equal: boolean }
  | { kind: "below"; metric: string; bound: number; or_equal: boolean }
  | { kind: "nan"; metric: string }
);

export const RULE_LENGTH_MAX = 600;
export const RULES_MAX = 32;
const MINUTES_MAX = 30 * 24 * 60;
const EXAMPLES = "`waiting 30m`, `no checkpoint 60m`, `loss > 10`, `loss is nan, stop` or `loss silent 20m`";

/** A misspelt operator, such as `=>`, must not become a part of the name: no metric is called `loss =`. */
const ODD_NAME = /^[<>=!~]|[<>=!~]$/;

/** The rule, or what is wrong with its text. */
export function parseNotifyRule(given: string): NotifyRule | string {
  const rule = parseLine(given);
  if (typeof rule === "string" || !("metric" in rule) || !ODD_NAME.test(rule.metric)) return rule;
  return `would watch a metric named \`${rule.metric}\`: the operators are >, >=, < and <=, as in ${EXAMPLES}`;
}

function parseLine(given: string): NotifyRule | string {
  const text = given.trim().replaceAll(/\s+/g, " ");
  const [, body = "", stop] = /^(.*?)(, ?stop)?$/.exec(text) ?? [];
  const shared = { text, stop: stop !== undefined };
  const [, early, count, unit] = /^(waiting|no checkpoint) (\d+(?:\.\d+)?) ?(m|h|min|minutes|hours)$/.exec(body) ?? [];
  if (early !== undefined) {
    const minutes = minutesOf(count, unit);
    if (typeof minutes === "string") return minutes;
    return { ...shared, kind: early === "waiting" ? "waiting" : "no_checkpoint", minutes };
  }
  const [, quiet, length, of] = /^(.+) silent (\d+(?:\.\d+)?) ?(m|h|min|minutes|hours)$/.exec(body) ?? [];
  if (quiet !== undefined) {
    const minutes = minutesOf(length, of);
    return typeof minutes === "string" ? minutes : { ...shared, kind: "silent", metric: quiet, minutes };
  }
  const nan = /^(.+) is (?:nan|NaN)$/.exec(body)?.[1];
  if (nan !== undefined) return { ...shared, kind: "nan", metric: nan };
  const [, metric, op, number] = /^(.+?) ?(>=|<=|>|<) ?([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)$/i.exec(body) ?? [];
  if (metric === undefined || op === undefined)
    return `is not a rule, such as ${EXAMPLES}; the operators are >, >=, < and <=`;
  const bound = Number(number);
  if (!Number.isFinite(bound)) return "compares with a number that is too large";
  return { ...shared, kind: op.startsWith(">") ? "above" : "below", metric, bound, or_equal: op.endsWith("=") };
}

function minutesOf(count: string | undefined, unit: string | undefined): number | string {
  const minutes = Number(count) * (unit?.startsWith("h") ? 60 : 1);
  return minutes >= 1 && minutes <= MINUTES_MAX ? minutes : "must name a time from 1 minute to 30 days";
}
