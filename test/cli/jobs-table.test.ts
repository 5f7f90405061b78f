import { expect, test } from "vitest";
import { jobsTable } from "../../src/cli/commands/jobs/table.ts";
import { headline } from "../../src/cli/commands/top/table.ts";
import type { Io } from "../../src/cli/io.ts";
import type { JobRecord } from "../../src/schemas/job.ts";

const io = (tty: boolean): Io => ({ tty, color: false, columns: () => 160 }) as unknown as Io;
const run = (more: Partial<JobRecord>): JobRecord =>
  ({
    id: "4k2m",
    status: "succeeded",
    exit_code: 0,
    provider: "local",
    gpus: "cpu",
    nodes: 1,
    cost_usd: 0,
    budget_usd: null,
    spent_usd: 0,
    machines: [],
    price_per_hour_usd: 0,
    created_at: "2026-01-02T03:04:05.000Z",
    ended_at: "2026-01-02T03:04:06.000Z",
    label: null,
    tags: [],
    entrypoint: "train.py",
    disk_bytes: 2,
    error: null,
    note: null,
    ...more,
  }) as unknown as JobRecord; // the table reads these alone
const headsOf = (more: Partial<JobRecord>, regions: [string, string][] = []): string[] =>
  jobsTable(io(true), [run({}), run(more)], new Map(regions))
    .split("\n")[0]
    ?.split(/ {2,}/) ?? [];

test("a terminal shows no column that is empty in every row, which leaves room for labels", () => {
  for (const head of ["REGION", "$/H", "TAGS"]) expect(headsOf({})).not.toContain(head);
  expect(headsOf({ price_per_hour_usd: 1.5, tags: ["paper"] }, [["4k2m", "EU"]])).toEqual(
    expect.arrayContaining(["REGION", "$/H", "TAGS"]),
  );
});

test("a pipe has every column, whatever is in it", () => {
  const [first = "", second = ""] = jobsTable(io(false), [run({}), run({ tags: ["paper"] })], new Map()).split("\n");
  expect(first.split("\t")).toHaveLength(second.split("\t").length);
});

test("the head of `svc top` does not show a cost of zero where the price of a machine is unknown", () => {
  const machines = [{ price_per_hour_usd: null, state: "held" }] as unknown as JobRecord["machines"];
  expect(headline([run({ machines, price_per_hour_usd: null })])).toContain("unknown so far");
  expect(headline([run({ cost_usd: 1.5 }), run({ machines, price_per_hour_usd: null })])).toContain("> $1.50 so far");
  expect(headline([run({ cost_usd: 1.5 })])).toContain("  $1.50 so far");
});
