// Writes docs/quality/side-by-side.md from what was measured: the tables are made here, the words about them are in `words.ts`.

import { median, quantile } from "../lib/measure.ts";
import { NAMES, type Name } from "./contestant.ts";
import type { Figures } from "./figures.ts";
import type { Installed } from "./install.ts";
import { CASE_NAMES, CASES, type CaseName, type Outcome } from "./leaks.ts";
import { AFTER, BEFORE, LEAKS } from "./words.ts";

export interface Results {
  machine: string;
  install: Installed[];
  figures: Figures[];
  leaks: Outcome[];
}

interface Line {
  what: string;
  unit: string;
  values: Record<Name, number[]>;
  /** SkyPilot answers with all rows, the others with a page of them: no ratio says anything about that. */
  allRows?: boolean;
}

/** Rows of a page of svc and dstack. */
const PAGE_ROWS = 50;

export function pageOf(results: Results): string {
  const { install, figures, leaks } = results;
  const loads = figures.flatMap(({ load }) => load);
  const versions = install.map(({ name, version }) => `${name} ${version}`).join(", ");
  const head = [
    `**Measured** on ${new Date().toISOString().slice(0, 10)}: ${versions}, all on the same machine within two hours (${results.machine}), with`,
    `Node ${process.versions.node} and Python 3. Load average between ${fixed(Math.min(...loads))} and ${fixed(Math.max(...loads))} while the times were taken.`,
  ];
  return `${[BEFORE, head.join("\n"), "## Room, time and memory", timed(install, figures), LEAKS, leakTable(leaks), AFTER].join("\n\n")}\n`;
}

function timed(install: Installed[], figures: Figures[]): string {
  const of = <T extends { name: Name }>(rows: T[], value: (row: T) => number[]): Record<Name, number[]> => {
    const found = Object.fromEntries(rows.map((row) => [row.name, value(row)]));
    return { svc: found["svc"] ?? [], SkyPilot: found["SkyPilot"] ?? [], dstack: found["dstack"] ?? [] };
  };
  const lists = (rows: number, which: "commandMs" | "commandCpuMs" | "apiMs"): Record<Name, number[]> =>
    of(figures, (each) => each.lists.find((list) => list.rows === rows)?.[which] ?? []);
  const lines: Line[] = [
    { what: "installed size", unit: "MB", values: of(install, ({ mb }) => [mb]) },
    { what: "packages from the registry", unit: "", values: of(install, ({ packages }) => [packages]) },
    {
      what: "`pip install`, nothing cached",
      unit: "s",
      values: of(install, ({ seconds }) => (seconds === null ? [] : [seconds])),
    },
    { what: "`--version`, whole process", unit: "ms", values: of(install, ({ versionMs }) => versionMs) },
    { what: "its processor time", unit: "ms", values: of(install, ({ versionCpuMs }) => versionCpuMs) },
    { what: "start of the server, to its first answer", unit: "ms", values: of(figures, ({ startMs }) => startMs) },
    {
      what: "processor time of its processes by then",
      unit: "ms",
      values: of(figures, ({ startCpuMs }) => startCpuMs),
    },
    {
      what: "memory 15 s after the start, all its processes (PSS)",
      unit: "MB",
      values: of(figures, ({ memoryMb }) => memoryMb),
    },
    ...[0, 1_000, 20_000].flatMap((rows): Line[] => {
      const allRows = rows > PAGE_ROWS;
      const list = `list of ${rows.toLocaleString("en")} rows`;
      return [
        { what: `${list}, command`, unit: "ms", values: lists(rows, "commandMs"), allRows },
        { what: "processor time of that command", unit: "ms", values: lists(rows, "commandCpuMs"), allRows },
        { what: `${list}, HTTP`, unit: "ms", values: lists(rows, "apiMs"), allRows },
      ];
    }),
  ];
  const shown = lines.filter(({ values }) => NAMES.some((name) => values[name].length > 0));
  return table(
    ["measured (median, range, n)", ...NAMES, "SkyPilot / svc", "dstack / svc"],
    shown.map(({ what, unit, values, allRows }) => [
      what,
      ...NAMES.map((name) => figure(values[name], unit)),
      allRows === true ? "all rows" : ratio(values.SkyPilot, values.svc),
      ratio(values.dstack, values.svc),
    ]),
  );
}

function figure(values: number[], unit: string): string {
  if (values.length === 0) return "—";
  const middle = `${digits(median(values))}${unit === "" ? "" : ` ${unit}`}`;
  return values.length === 1
    ? middle
    : `${middle} (${digits(quantile(values, 0))} to ${digits(quantile(values, 1))}, ${values.length})`;
}

const ratio = (theirs: number[], ours: number[]): string =>
  theirs.length === 0 || ours.length === 0 ? "—" : `${fixed(median(theirs) / median(ours))}x`;

function leakTable(leaks: Outcome[]): string {
  if (leaks.length === 0) return "Not measured.";
  const of = (name: Name, fault: CaseName): Outcome[] =>
    leaks.filter((each) => each.name === name && each.fault === fault);
  const rows = CASE_NAMES.map((fault) => [CASES[fault].what, ...NAMES.map((name) => told(of(name, fault)))]);
  const sums = NAMES.map((name) => {
    const own = leaks.filter((each) => each.name === name);
    const sum = (value: (each: Outcome) => number): number => own.reduce((total, each) => total + value(each), 0);
    return `**${sum(({ left }) => left)} left** of ${sum(({ made }) => made)} machines in ${own.length} runs; $${sum(({ usd }) => usd).toFixed(2)}`;
  });
  return table(["fault", ...NAMES], [...rows, ["**together**", ...sums]]);
}

function told(outcomes: Outcome[]): string {
  if (outcomes.length === 0) return "not measured";
  return outcomes
    .map(({ left, made, billedAlone, asked, usd }) => {
      const alone = `${billedAlone} of ${made} billed alone`;
      const again = asked > 1 ? `, asked ${asked} times` : "";
      return `${left === 0 ? "0" : `**${left}**`} left (${alone}${again}; $${usd.toFixed(3)})`;
    })
    .join("<br>");
}

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

const digits = (value: number): string =>
  Number.isInteger(value) || value >= 100 ? value.toFixed(0) : value.toPrecision(3);
const fixed = (value: number): string => value.toFixed(1);
