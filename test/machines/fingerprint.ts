// The definition on which a stored snapshot depends, as text: states, transitions, events, context keys, effects. Code
// is not included.

import { jobMachine } from "../../src/machines/job-machine.ts";
import { everything, first, input } from "./walk.ts";

/** The name of a guard or an action in the definition. The lengths of time limits are not stored. */
const named = (what: unknown): string =>
  typeof what === "string"
    ? what
    : JSON.stringify(what, (_, value: unknown) =>
        typeof value === "function" || typeof value === "number" ? "computed" : value,
      );
const list = (what: unknown): unknown[] => (what === undefined ? [] : Array.isArray(what) ? what : [what]);

/** One line for each state, event, key and effect, so that a difference shows what has changed. */
export function definitionText(): string {
  const { config } = jobMachine;
  const lines = [
    `context: ${Object.keys(first().context).join(" ")}`,
    `node: ${Object.keys(first().context.nodes[0] ?? {}).join(" ")}`,
  ];
  const describe = (
    where: string,
    node: { type?: string; tags?: unknown; entry?: unknown; exit?: unknown; always?: unknown; on?: object },
  ): void => {
    lines.push(`${where}: ${[node.type ?? "normal", ...list(node.tags).map(String)].join(" ")}`);
    for (const action of list(node.entry)) lines.push(`${where} entry ${named(action)}`);
    for (const action of list(node.exit)) lines.push(`${where} exit ${named(action)}`);
    const always = node.always === undefined ? {} : { always: node.always };
    for (const [event, transitions] of Object.entries({ ...always, ...node.on })) {
      for (const transition of list(transitions) as { target?: string; guard?: unknown; actions?: unknown }[]) {
        const parts = [
          transition.guard === undefined ? "" : `if ${named(transition.guard)}`,
          `to ${transition.target ?? "itself"}`,
          ...list(transition.actions).map((a) => `do ${named(a)}`),
        ];
        lines.push(`${where} on ${event} ${parts.filter(Boolean).join(" ")}`);
      }
    }
  };
  describe("job", config as object);
  for (const [name, state] of Object.entries(config.states ?? {})) describe(name, state as object);
  const effects = new Set(
    [...everything(input()), ...everything(input(1, null, { searches: true }))].flatMap((visit) =>
      visit.actions.map((action) => action.type),
    ),
  );
  lines.push(`effects: ${[...effects].toSorted().join(" ")}`);
  return `${lines.join("\n")}\n`;
}
