// The dashboard's state. sync.ts writes it from the API's answers, components read it through selectors.

import { createStore } from "@xstate/store";
import { useSelector } from "@xstate/store-react";
import type { CheckpointFile, JobRecord, JobsPage, LedgerMachine, Problem, Timeline } from "../../src/schemas/job.ts";
import type { Placements } from "../../src/schemas/placement.ts";
import type { Summary } from "../../src/schemas/plan.ts";
import type { FeedState } from "./feed.ts";
import { belongs, EVERYTHING, listPath, type RunFilter } from "./run-filter.ts";

export interface RunList {
  filter: RunFilter;
  ids: string[];
  nextCursor: string | null;
  phase: "loading" | "ready" | "failed";
  problem: Problem | null;
}

export interface Data {
  jobs: Record<string, JobRecord>;
  list: RunList;
  machines: LedgerMachine[] | null;
  /** When the machines were read, in milliseconds since the epoch. */
  machinesAt: number | null;
  /** Since when a machine is being released without trouble, by its `machineKey`. */
  returning: Record<string, number>;
  summary: Summary | null;
  timelines: Record<string, Timeline>;
  placements: Record<string, Placements>;
  checkpoints: Record<string, CheckpointFile[]>;
  /** Why a single run cannot be shown. */
  problems: Record<string, Problem>;
  connection: { state: FeedState; sinceMs: number };
}

const initial: Data = {
  jobs: {},
  list: { filter: EVERYTHING, ids: [], nextCursor: null, phase: "loading", problem: null },
  machines: null,
  machinesAt: null,
  returning: {},
  summary: null,
  timelines: {},
  placements: {},
  checkpoints: {},
  problems: {},
  connection: { state: "connecting", sinceMs: Date.now() },
};

const without = (problems: Data["problems"], id: string) => {
  if (!(id in problems)) return problems;
  const { [id]: _gone, ...rest } = problems;
  return rest;
};

/** Newest first, as the API lists them. */
const newestFirst = (jobs: Record<string, JobRecord>) => (a: string, b: string) => {
  const [x, y] = [jobs[a]?.created_at ?? "", jobs[b]?.created_at ?? ""];
  return x === y ? (a < b ? 1 : -1) : x < y ? 1 : -1;
};

/** The position of a run in a sorted list. */
function place(ids: readonly string[], jobs: Record<string, JobRecord>, id: string): number {
  const order = newestFirst(jobs);
  let [low, high] = [0, ids.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order(ids[middle] ?? "", id) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function placed(list: RunList, jobs: Record<string, JobRecord>, job: JobRecord): RunList {
  const wanted = belongs(list.filter, job);
  const listed = list.ids.includes(job.id);
  if (wanted === listed || list.phase !== "ready") return list;
  if (!wanted) return { ...list, ids: list.ids.filter((id) => id !== job.id) };
  const at = place(list.ids, jobs, job.id);
  // Older than every loaded run: it belongs to a page that was not requested yet.
  if (at === list.ids.length && list.nextCursor !== null) return list;
  return { ...list, ids: list.ids.toSpliced(at, 0, job.id) };
}

const same = (a: RunFilter, b: RunFilter): boolean => listPath(a) === listPath(b);

const withAll = (jobs: Data["jobs"], page: JobsPage) => ({
  ...jobs,
  ...Object.fromEntries(page.jobs.map((job) => [job.id, job])),
});

function removed(data: Data, id: string): Data {
  const { [id]: _gone, ...jobs } = data.jobs;
  return { ...data, jobs, list: { ...data.list, ids: data.list.ids.filter((each) => each !== id) } };
}

export const store = createStore({
  context: initial,
  on: {
    listOpened: (data, { filter }: { filter: RunFilter }) => ({
      ...data,
      list: same(data.list.filter, filter) && data.list.phase === "ready" ? data.list : { ...initial.list, filter },
    }),
    listLoaded: (data, { page, filter, whole }: { page: JobsPage; filter: RunFilter; whole: boolean }) => {
      if (!same(filter, data.list.filter)) return data;
      const jobs = withAll(data.jobs, page);
      const ids = page.jobs.map((job) => job.id);
      const fresh = new Set(ids);
      const last = ids.at(-1);
      const sort = newestFirst(jobs);
      // Pages that were read while scrolling stay, behind the fresh first page.
      const older =
        whole || last === undefined ? [] : data.list.ids.filter((id) => !fresh.has(id) && sort(last, id) < 0);
      const nextCursor = older.length > 0 ? data.list.nextCursor : page.next_cursor;
      return {
        ...data,
        jobs,
        list: { filter, ids: [...ids, ...older], nextCursor, phase: "ready" as const, problem: null },
      };
    },
    moreLoaded: (data, { page, filter }: { page: JobsPage; filter: RunFilter }) => {
      if (!same(filter, data.list.filter)) return data;
      const known = new Set(data.list.ids);
      const ids = [...data.list.ids, ...page.jobs.map((job) => job.id).filter((id) => !known.has(id))];
      return { ...data, jobs: withAll(data.jobs, page), list: { ...data.list, ids, nextCursor: page.next_cursor } };
    },
    jobsLoaded: (data, { found }: { found: JobRecord[] }) => {
      const jobs = { ...data.jobs, ...Object.fromEntries(found.map((job) => [job.id, job])) };
      return { ...data, jobs, list: found.reduce((list, job) => placed(list, jobs, job), data.list) };
    },
    summaryLoaded: (data, { summary }: { summary: Summary }) => ({ ...data, summary }),
    listFailed: (data, { problem }: { problem: Problem }) => ({
      ...data,
      list: { ...data.list, phase: data.list.phase === "ready" ? ("ready" as const) : ("failed" as const), problem },
    }),
    jobLoaded: (data, { job }: { job: JobRecord }) => {
      const jobs = { ...data.jobs, [job.id]: job };
      return { ...data, jobs, list: placed(data.list, jobs, job), problems: without(data.problems, job.id) };
    },
    jobRemoved: (data, { id }: { id: string }) => removed(data, id),
    jobFailed: (data, { id, problem }: { id: string; problem: Problem }) => ({
      // It may have been removed while this page was not connected.
      ...(problem.status === 404 ? removed(data, id) : data),
      problems: { ...data.problems, [id]: problem },
    }),
    timelineLoaded: (data, { id, timeline }: { id: string; timeline: Timeline }) => ({
      ...data,
      timelines: { ...data.timelines, [id]: timeline },
    }),
    placementsLoaded: (data, { id, placements }: { id: string; placements: Placements }) => ({
      ...data,
      placements: { ...data.placements, [id]: placements },
    }),
    checkpointsLoaded: (data, { id, files }: { id: string; files: CheckpointFile[] }) => ({
      ...data,
      checkpoints: { ...data.checkpoints, [id]: files },
    }),
    machinesLoaded: (data, { machines, returning }: Pick<Data, "returning"> & { machines: LedgerMachine[] }) => ({
      ...data,
      machines,
      returning,
      machinesAt: Date.now(),
    }),
    connectionChanged: (data, connection: Data["connection"]) => ({
      ...data,
      connection: { state: connection.state, sinceMs: connection.sinceMs },
    }),
  },
});

/** A part of the state; the component is redrawn when that part changes. */
export function useData<T>(select: (data: Data) => T): T {
  return useSelector(store, (snapshot) => select(snapshot.context));
}
