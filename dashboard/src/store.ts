// What the dashboard knows. Written by sync.ts from the API's answers, read by components through selectors.

import { createStore } from "@xstate/store";
import { useSelector } from "@xstate/store-react";
import type {
  CheckpointFile,
  JobRecord,
  JobsPage,
  JobStatus,
  LedgerMachine,
  Problem,
  Timeline,
} from "../../src/schemas/job.ts";
import type { FeedState } from "./feed.ts";

export interface RunList {
  filter: JobStatus | null;
  ids: string[];
  nextCursor: string | null;
  phase: "loading" | "ready" | "failed";
  problem: Problem | null;
}

export interface Data {
  jobs: Record<string, JobRecord>;
  list: RunList;
  machines: LedgerMachine[] | null;
  timelines: Record<string, Timeline>;
  checkpoints: Record<string, CheckpointFile[]>;
  /** Why a single run cannot be shown. */
  problems: Record<string, Problem>;
  connection: { state: FeedState; sinceMs: number };
}

const initial: Data = {
  jobs: {},
  list: { filter: null, ids: [], nextCursor: null, phase: "loading", problem: null },
  machines: null,
  timelines: {},
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

function placed(list: RunList, jobs: Record<string, JobRecord>, job: JobRecord): RunList {
  const belongs = list.filter === null || list.filter === job.status;
  const listed = list.ids.includes(job.id);
  if (belongs === listed || list.phase !== "ready") return list;
  if (!belongs) return { ...list, ids: list.ids.filter((id) => id !== job.id) };
  const ids = [...list.ids, job.id].sort(newestFirst(jobs));
  // Older than all that is loaded: it belongs to a page that was not asked for yet.
  return ids.at(-1) === job.id && list.nextCursor !== null ? list : { ...list, ids };
}

const withAll = (jobs: Data["jobs"], page: JobsPage) => ({
  ...jobs,
  ...Object.fromEntries(page.jobs.map((job) => [job.id, job])),
});

export const store = createStore({
  context: initial,
  on: {
    listOpened: (data, { filter }: { filter: JobStatus | null }) => ({
      ...data,
      list: data.list.filter === filter && data.list.phase === "ready" ? data.list : { ...initial.list, filter },
    }),
    listLoaded: (data, { page, filter }: { page: JobsPage; filter: JobStatus | null }) => {
      if (filter !== data.list.filter) return data;
      const jobs = withAll(data.jobs, page);
      const ids = page.jobs.map((job) => job.id);
      const last = ids.at(-1);
      const sort = newestFirst(jobs);
      // Pages loaded earlier with "load more" stay, behind the fresh first page.
      const older = last === undefined ? [] : data.list.ids.filter((id) => !ids.includes(id) && sort(last, id) < 0);
      const nextCursor = older.length > 0 ? data.list.nextCursor : page.next_cursor;
      return {
        ...data,
        jobs,
        list: { filter, ids: [...ids, ...older], nextCursor, phase: "ready" as const, problem: null },
      };
    },
    moreLoaded: (data, { page, filter }: { page: JobsPage; filter: JobStatus | null }) => {
      if (filter !== data.list.filter) return data;
      const ids = [...data.list.ids, ...page.jobs.map((job) => job.id).filter((id) => !data.list.ids.includes(id))];
      return { ...data, jobs: withAll(data.jobs, page), list: { ...data.list, ids, nextCursor: page.next_cursor } };
    },
    listFailed: (data, { problem }: { problem: Problem }) => ({
      ...data,
      list: { ...data.list, phase: data.list.phase === "ready" ? ("ready" as const) : ("failed" as const), problem },
    }),
    jobLoaded: (data, { job }: { job: JobRecord }) => {
      const jobs = { ...data.jobs, [job.id]: job };
      return { ...data, jobs, list: placed(data.list, jobs, job), problems: without(data.problems, job.id) };
    },
    jobFailed: (data, { id, problem }: { id: string; problem: Problem }) => ({
      ...data,
      problems: { ...data.problems, [id]: problem },
    }),
    timelineLoaded: (data, { id, timeline }: { id: string; timeline: Timeline }) => ({
      ...data,
      timelines: { ...data.timelines, [id]: timeline },
    }),
    checkpointsLoaded: (data, { id, files }: { id: string; files: CheckpointFile[] }) => ({
      ...data,
      checkpoints: { ...data.checkpoints, [id]: files },
    }),
    machinesLoaded: (data, { machines }: { machines: LedgerMachine[] }) => ({ ...data, machines }),
    connectionChanged: (data, connection: Data["connection"]) => ({
      ...data,
      connection: { state: connection.state, sinceMs: connection.sinceMs },
    }),
  },
});

/** A part of what is known; the component is drawn again when that part changes. */
export function useData<T>(select: (data: Data) => T): T {
  return useSelector(store, (snapshot) => select(snapshot.context));
}
