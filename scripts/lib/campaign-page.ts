// Shows the results of campaigns, as a table in a terminal and as a page.

import { jsonLinesIn } from "./json-lines.ts";

export const PARTS = ["simulation", "kills", "calls", "matrix", "preemptions", "budgets"] as const;

/** One part of one campaign, stored as one line of a file. */
export interface Kept {
  /** The day of its end, in UTC. */
  day: string;
  part: (typeof PARTS)[number];
  /** Counts of what the part has run. */
  counts: Record<string, number>;
  /** The first and the last seed. */
  seeds: [number, number];
  wrong: number;
  minutes: number;
  /** The abbreviated commit of the program under test; empty if unknown. */
  commit?: string;
  /** The digest of the program under test (`sourcesOf`); absent for earlier ones. */
  sources?: string;
  /** The campaign that it belongs to, by the version that was tested; absent for earlier ones. */
  round?: string;
  /** The fault that was found, and its fix; written by hand. */
  note?: string;
}

/** The campaigns in a file. */
export const keptIn = (file: string): Kept[] => jsonLinesIn(file);

const ABOUT: Record<Kept["part"], string> = {
  simulation:
    "The engine, its steps and a provider that lies, loses answers and lags, in simulated time with crashes anywhere: [the simulation](faults.md#the-simulation)",
  kills:
    "`svc serve` in a process of its own, with real runs, ended by SIGKILL at instants that are drawn, and started again",
  calls:
    "Each system call of `svc serve` in turn fails, or is its last, by strace, while it starts and while it drives a run; a seed and the next one have both",
  matrix: "Simulated providers with real machines, faults and kills at boundaries: [fault-matrix.md](fault-matrix.md)",
  preemptions:
    "The machines of one job are taken one after the other, at moments that are drawn: every checkpoint has the bytes of an undisturbed run",
  budgets:
    "The provider's bill of runs with a budget, while a control plane lives, is killed for ever or sleeps: [budgets.md](budgets.md)",
};

const number = (count: number): string => count.toLocaleString("en-US");

const range = ([first, last]: Kept["seeds"]): string => (first === last ? String(first) : `${first} to ${last}`);

const counted = (counts: Kept["counts"]): string =>
  Object.entries(counts)
    .map(([what, count]) => `${number(count)} ${what}`)
    .join(", ");

/** One row for each campaign. */
export function campaignTable(kept: readonly Kept[]): string {
  const lines = kept.map(
    ({ day, part, counts, seeds, wrong, minutes, commit = "" }) =>
      `| ${day} | ${commit} | ${part} | ${counted(counts)} | ${range(seeds)} | ${wrong} | ${minutes.toFixed(1)} |`,
  );
  const heads = ["day", "commit", "part", "what", "seeds", "wrong", "minutes"];
  return [`| ${heads.join(" | ")} |`, `|${" --- |".repeat(heads.length)}`, ...lines].join("\n");
}

interface Sum {
  counts: Kept["counts"];
  wrong: number;
  commits: string[];
}

/** The sum of each part that was gone through. */
function sumsOf(kept: readonly Kept[]): Map<Kept["part"], Sum> {
  const sums = new Map<Kept["part"], Sum>();
  for (const { part, counts, wrong, commit = "" } of kept) {
    const sum = sums.get(part) ?? { counts: {}, wrong: 0, commits: [] };
    sums.set(part, sum);
    for (const [what, count] of Object.entries(counts)) sum.counts[what] = (sum.counts[what] ?? 0) + count;
    sum.wrong += wrong;
    if (!sum.commits.includes(commit)) sum.commits.push(commit);
  }
  return sums;
}

/** The newest round by itself, each program that a part has tested in a row; or nothing before there was one. */
function newestRound(all: readonly Kept[]): string {
  const round = all.findLast((kept) => kept.round !== undefined)?.round;
  if (round === undefined) return "";
  const programs = Map.groupBy(
    all.filter((kept) => kept.round === round),
    ({ sources = "" }) => sources,
  );
  const rows = PARTS.flatMap((part) =>
    [...programs].flatMap(([sources, kept]) => {
      const sum = sumsOf(kept).get(part);
      if (sum === undefined) return [];
      return [`| ${part} | ${counted(sum.counts)} | ${sum.wrong} | ${sources} | ${sum.commits.join(", ")} |`];
    }),
  );
  return `
## The round of ${round}

A program is a digest of the code in the files of svc that the part loads: a commit of comments, types, documentation, tests, the
dashboard or a command that the part does not run keeps it. Kills and calls have runs of this computer alone, so their digest leaves out the renting providers.
\`npm run campaign -- --sources\` prints those of a checkout.

| part | played | wrong | program | commits |
| --- | --- | --- | --- | --- |
${rows.join("\n")}
`;
}

/** The page: the sum of each part, the newest round, then each campaign. */
export function campaignPage(all: readonly Kept[]): string {
  const sums = sumsOf(all);
  const rows = PARTS.flatMap((part) => {
    const sum = sums.get(part);
    return sum === undefined ? [] : [`| ${part} | ${ABOUT[part]} | ${counted(sum.counts)} | ${sum.wrong} |`];
  });
  const notes = all.flatMap(({ day, part, note }) => (note === undefined ? [] : [`- ${day}, ${part}: ${note}`]));
  const told = notes.length === 0 ? "" : `\nWhat was wrong, and what became of it:\n\n${notes.join("\n")}\n`;
  return `<!-- Written by \`npm run campaign -- --keep docs/quality/campaign.jsonl\`; do not edit. -->

# Campaign

The campaign draws worlds, kills, failing calls and faults from seeds, and plays each to its end. Then no machine may be left, none may have existed twice,
and nothing may be lost. \`wrong\` counts the plays in which one of these did not hold; [the causes are below](#each-one). The first table adds up all campaigns. \`npm run campaign\`
plays another one of 100,000 worlds, 500 kills, each system call, 10,000 runs of the matrix, 1,000 preemptions and 1,000 budgets; \`--scale 0.01\` a hundredth of it.

| part | about | played | wrong |
| --- | --- | --- | --- |
${rows.join("\n")}
${newestRound(all)}
## Each one

${campaignTable(all)}
${told}
A seed again: \`npm run sim -- --seed S --trace\` for the simulation, \`npm run campaign -- --only PART --seed S\` for the others.
`;
}
