// Keeps the store in step with the control plane: an event marks the affected data, and marked data is read again, at
// most four times a second and never twice at once.

import type { HubPullHint } from "../../src/schemas/hub.ts";
import type { FeedEvent, FeedHint, LedgerMachine, TimelineStep } from "../../src/schemas/job.ts";
import { api, asProblem } from "./api.ts";
import { earlyUsed, forgetEarly } from "./early.ts";
import { openFeed } from "./feed.ts";
import { machineKey, returningSince } from "./machines.ts";
import { countQuestionOf, questionOf, type RunFilter } from "./run-filter.ts";
import { store } from "./store.ts";

const EVERY_MS = 250;
const MACHINES_EVERY_MS = 30_000;
/** Progress within a step sends no event, so it is polled. */
const STEP_EVERY_MS = 2_000;
/** So is what waiting runs of the list have tried. They look at common instants that are so far apart. */
const WAITING_EVERY_MS = 5_000;
/** The connection waits so long for the use of the early answers (`early.ts`). */
const EARLY_MAX_MS = 500;
/** Maximum of changed runs in one request. */
const TOGETHER_MAX = 200;
const PAGE_SIZE = 100;

/** Runs `work` soon after `mark()`, with at least `everyMs` between two starts and never two at once. */
export function coalesced(everyMs: number, work: () => Promise<void>): { mark(): void } {
  let marked = false;
  let busy = false;
  const turn = () => {
    if (!marked || busy) return;
    marked = false;
    busy = true;
    const rested = new Promise((resolve) => setTimeout(resolve, everyMs));
    void Promise.allSettled([work(), rested]).then(() => {
      busy = false;
      turn();
    });
  };
  return {
    mark() {
      marked = true;
      turn();
    },
  };
}

/**
 * The socket’s hints; `opened` after each (re)connection; `pulls.changed` when a pull of a model began or ended;
 * `notices.changed` after an event that svc may report.
 */
export type Hint = FeedHint | HubPullHint | { type: "opened" | "pulls.changed" | "notices.changed" };

const hintListeners = new Set<(hint: Hint) => void>();
/** Listens for the socket's hints, and `opened` after each (re)connection. Returns a function that stops listening. */
export function onHint(listener: (hint: Hint) => void): () => void {
  hintListeners.add(listener);
  return () => void hintListeners.delete(listener);
}

const tell = (hint: Hint): void => {
  for (const listener of hintListeners) listener(hint);
};

const dirty = new Set<string>();
let listShown = false;
let shown: string | null = null;
/** The live connection was open at least once. */
let connected = false;

export async function loadJob(id: string): Promise<void> {
  try {
    store.trigger.jobLoaded({ job: await api.job(id) });
  } catch (error) {
    store.trigger.jobFailed({ id, problem: asProblem(error) });
  }
}

/** Set when events were missed: older pages in the store are then invalid. */
let stale = false;

/** Runs that changed while a page of the list was being read: the page may hold their records from before. */
const changed = new Set<string>();
let reading = 0;

/** Runs that were removed while several runs were being read: such an answer may still hold them. */
const gone = new Set<string>();
let answers = 0;

/** Uses the answer without the runs that were removed meanwhile. */
async function withoutGone<T>(ask: () => Promise<T>, use: (answer: T) => void): Promise<void> {
  answers += 1;
  try {
    use(await ask());
    for (const id of gone) store.trigger.jobRemoved({ id });
  } finally {
    answers -= 1;
    if (answers === 0) gone.clear();
  }
}

/** Uses the answer, after which the runs that changed meanwhile are read again. */
async function whileReading<T>(page: () => Promise<T>, use: (answer: T) => void): Promise<void> {
  reading += 1;
  try {
    await withoutGone(page, use);
  } finally {
    reading -= 1;
    for (const id of changed) touch(id);
    if (reading === 0) changed.clear();
  }
}

async function loadList(): Promise<void> {
  const { filter } = store.getSnapshot().context.list;
  const whole = stale;
  const read = () => api.jobs({ ...questionOf(filter), limit: PAGE_SIZE });
  try {
    await whileReading(read, (page) => store.trigger.listLoaded({ page, filter, whole }));
    if (whole) stale = false;
  } catch (error) {
    store.trigger.listFailed({ problem: asProblem(error) });
  }
}

/** The next page of the list; throws an ApiError. */
export async function loadMore(): Promise<void> {
  const { filter, nextCursor } = store.getSnapshot().context.list;
  if (nextCursor === null) return;
  const read = () => api.jobs({ ...questionOf(filter), limit: PAGE_SIZE, cursor: nextCursor });
  await whileReading(read, (page) => store.trigger.moreLoaded({ page, filter }));
}

const list = coalesced(EVERY_MS, loadList);
const jobs = coalesced(EVERY_MS, async () => {
  const ids = [...dirty];
  dirty.clear();
  const alone = ids.filter((id) => id === shown).map(loadJob);
  const listed = listShown ? ids.filter((id) => id !== shown) : [];
  const together = [];
  for (let i = 0; i < listed.length; i += TOGETHER_MAX) together.push(loadTogether(listed.slice(i, i + TOGETHER_MAX)));
  await Promise.all([...alone, ...together]);
});

async function loadTogether(ids: string[]): Promise<void> {
  try {
    const read = () => api.jobs({ ids: ids.join(","), limit: TOGETHER_MAX });
    await withoutGone(read, ({ jobs: found }) => store.trigger.jobsLoaded({ found }));
  } catch {
    // The next connection reads everything again.
    stale = true;
  }
}

const summary = coalesced(1_000, async () => {
  if (!listShown) return;
  const answer = await api.summary(countQuestionOf(store.getSnapshot().context.list.filter)).catch(() => null);
  if (answer) store.trigger.summaryLoaded({ summary: answer });
});
const timeline = coalesced(EVERY_MS, async () => {
  const id = shown;
  if (id === null) return;
  const [answer, placements] = await Promise.all([
    api.timeline(id).catch(() => null),
    api.placements(id).catch(() => null),
  ]);
  if (answer) store.trigger.timelineLoaded({ id, timeline: answer });
  if (placements) store.trigger.placementsLoaded({ id, placements });
});
const checkpoints = coalesced(1_000, async () => {
  const id = shown;
  if (id === null) return;
  const answer = await api.checkpoints(id).catch(() => null);
  if (answer) store.trigger.checkpointsLoaded({ id, files: answer.files });
});
const machines = coalesced(1_000, async () => {
  const answer = await api.machines().catch(() => null);
  if (answer)
    store.trigger.machinesLoaded({ machines: answer.machines, returning: await returningOf(answer.machines) });
});

/** The steps in which each run releases its machines: requested once, until they change. */
const endings = new Map<string, Promise<TimelineStep[]>>();

async function returningOf(all: readonly LedgerMachine[]): Promise<Record<string, number>> {
  const leaving = all.filter((machine) => machine.state === "releasing" && machine.job_id !== null);
  const ids = new Set(leaving.map((machine) => machine.job_id));
  for (const id of endings.keys()) if (!ids.has(id)) endings.delete(id);
  const found = await Promise.all(
    leaving.map(async (machine) => {
      const since = returningSince(await endingOf(machine.job_id ?? ""), [machine]);
      return since === null ? [] : [[machineKey(machine), since] as const];
    }),
  );
  return Object.fromEntries(found.flat());
}

function endingOf(id: string): Promise<TimelineStep[]> {
  const known = endings.get(id);
  if (known) return known;
  const asked = api.timeline(id).then(
    ({ steps }) => steps,
    () => {
      endings.delete(id);
      return [];
    },
  );
  endings.set(id, asked);
  return asked;
}

const touch = (id: string) => {
  if (reading > 0) changed.add(id);
  dirty.add(id);
  jobs.mark();
};

function touchWaiting(): void {
  const { jobs: known, list: listed } = store.getSnapshot().context;
  for (const id of listed.ids) if (known[id]?.status === "waiting") touch(id);
}

/** Call it when the list of runs is on screen; the returned function ends that. */
export function showList(filter: RunFilter): () => void {
  listShown = true;
  store.trigger.listOpened({ filter });
  list.mark();
  summary.mark();
  return () => void (listShown = false);
}

/** Call it when this page has changed the files of a run. */
export function readRunAgain(id: string): void {
  touch(id);
  if (id === shown) checkpoints.mark();
}

/** Call it when this page has moved runs from one list to another. */
export const readCountsAgain = (): void => summary.mark();

/** Call it when a run is on screen. */
export function showRun(id: string): () => void {
  shown = id;
  // A record from before the connection is read again when that opens.
  if (connected || !store.getSnapshot().context.jobs[id]) touch(id);
  timeline.mark();
  checkpoints.mark();
  return () => {
    if (shown === id) shown = null;
  };
}

/** Whether svc may write a notice about it; a removed run takes its notices along. */
const isReported = ({ type, data }: FeedEvent): boolean =>
  type === "job.transition"
    ? data["to"] === "terminal"
    : /^(budget\.|notice$|alert$|price\.raised$|placement\.opened$|machine\.changed$|job\.removed$)/.test(type);

function heard(event: FeedEvent): void {
  if (event.type === "machine.changed" || event.type === "job.transition") machines.mark();
  if (["job.created", "job.transition", "job.archived"].includes(event.type)) summary.mark();
  if (event.job_id !== null && event.data["step"] === "terminate") {
    endings.delete(event.job_id);
    machines.mark();
  }
  if (event.type.startsWith("pull.")) tell({ type: "pulls.changed" });
  if (isReported(event)) tell({ type: "notices.changed" });
  if (event.job_id === null) return;
  if (event.type === "job.removed") {
    store.trigger.jobRemoved({ id: event.job_id });
    if (answers > 0) gone.add(event.job_id);
    summary.mark();
    // Its page says so in place of the record.
    if (event.job_id === shown) touch(event.job_id);
    return;
  }
  touch(event.job_id);
  if (event.job_id !== shown) return;
  timeline.mark();
  if (event.type.startsWith("checkpoint.") || event.type === "job.transition") checkpoints.mark();
}

function refreshAll(): void {
  if (listShown) {
    list.mark();
    summary.mark();
  }
  if (shown !== null) {
    touch(shown);
    timeline.mark();
    checkpoints.mark();
  }
  machines.mark();
}

let reconnect = (): void => undefined;
/** Reconnects to the control plane at once instead of after the current delay. */
export const tryAgain = (): void => reconnect();

export async function startSync(): Promise<void> {
  await earlyUsed(EARLY_MAX_MS);
  reconnect = openFeed({
    opened(resumed) {
      connected = true;
      forgetEarly();
      if (!resumed) stale = true;
      refreshAll();
      tell({ type: "opened" });
    },
    event: heard,
    hint: tell,
    state: (state, sinceMs) => store.trigger.connectionChanged({ state, sinceMs }),
  });
  machines.mark();
  setInterval(() => {
    if (!document.hidden) machines.mark();
  }, MACHINES_EVERY_MS);
  setInterval(() => {
    if (!document.hidden && listShown) touchWaiting();
  }, WAITING_EVERY_MS);
  setInterval(() => {
    const { timelines } = store.getSnapshot().context;
    const steps = (shown !== null && timelines[shown]?.steps) || [];
    if (!document.hidden && steps.some((step) => step.status === "running" && step.step !== "stream")) timeline.mark();
  }, STEP_EVERY_MS);
}
