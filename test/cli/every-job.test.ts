import { expect, test } from "vitest";
import { everyJob } from "../../src/cli/store.ts";
import type { JobRecord, JobsQuery } from "../../src/schemas/job.ts";

/** Pages like those of the store: the cursor is the number of earlier jobs. */
function pages(count: number, asked: JobsQuery[] = []) {
  return {
    asked,
    jobs(query: JobsQuery) {
      asked.push(query);
      const from = Number(query.cursor ?? 0);
      const to = Math.min(count, from + query.limit);
      const jobs = Array.from({ length: to - from }, (_, i) => ({ id: `job${from + i}` }) as JobRecord);
      return { jobs, next_cursor: to < count ? String(to) : null };
    },
  };
}

test("every run is found, on any number of pages", () => {
  const reads = pages(1_201);
  expect([...everyJob(reads, { status: ["running"] })].map((job) => job.id)).toEqual(
    Array.from({ length: 1_201 }, (_, i) => `job${i}`),
  );
  expect(reads.asked.map(({ status, limit, cursor }) => [status, limit, cursor])).toEqual([
    [["running"], 500, undefined],
    [["running"], 500, "500"],
    [["running"], 500, "1000"],
  ]);
  expect([...everyJob(pages(0))]).toEqual([]);
});

test("A page that returns its own cursor ends the listing with an error", () => {
  const stuck = { jobs: () => ({ jobs: [], next_cursor: "1" }) };
  expect(() => [...everyJob(stuck)]).toThrow("returned its own cursor");
});
