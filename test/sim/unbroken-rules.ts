// The invariants of heads that no deliberate defect breaks, each with the reason.

export const UNBROKEN_RULES: Readonly<Record<string, string>> = {
  "src/sinks/sinks.ts L1":
    "no code waits for a sink: its ports name neither a step nor a machine, so one line cannot break this",
};
