import type { TimelineStep } from "../schemas/job.ts";

/** The warnings of a run about files that are lost with its machines, from its timeline: they outlast the end of the run. */
export function runWarnings(steps: readonly TimelineStep[]): string[] {
  const several = steps.some(({ node }) => node > 0);
  const told = steps.flatMap(({ step, node, detail }) => {
    const words: unknown = step === "collect" ? detail?.["warnings"] : undefined;
    const texts = Array.isArray(words) ? words.filter((each) => typeof each === "string") : [];
    return texts.map((each) => (several ? `Node ${node}: ${each}` : each));
  });
  return [...new Set(told)];
}
