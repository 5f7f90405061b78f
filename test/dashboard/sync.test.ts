// How the dashboard follows changes, without a browser: the socket and the answers are those of this test.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { store } from "../../dashboard/src/store.ts";
import { EVERYTHING } from "../../dashboard/src/run-filter.ts";
import { showList, showRun, startSync } from "../../dashboard/src/sync.ts";

const sockets: { onopen: () => void; onmessage: (message: { data: string }) => void }[] = [];
class Socket {
  readonly readyState = 1;
  onopen = (): void => undefined;
  onmessage = (): void => undefined;
  constructor() {
    sockets.push(this);
  }
}

let answers: Record<string, [status: number, body: unknown, after?: Promise<void>]>;
beforeEach(async () => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", Socket);
  vi.stubGlobal("location", { href: "http://127.0.0.1:8780/runs/j1", protocol: "http:" });
  vi.stubGlobal("document", { hidden: false, addEventListener: () => undefined });
  vi.stubGlobal("addEventListener", () => undefined);
  vi.stubGlobal("fetch", (path: string) => {
    const [status, body, after] = answers[path.replace(/\?.*/, path.includes("ids=") ? "?ids" : "")] ?? [503, {}];
    return Promise.resolve(after).then(() => new Response(JSON.stringify(body), { status }));
  });
  answers = {};
  await startSync();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("The page of a run that is removed elsewhere learns that it was removed, and does not wait for its record", async () => {
  answers = { "/jobs/j1": [200, { id: "j1", status: "succeeded", created_at: "2026-11-29T00:00:00Z" }] };
  const leave = showRun("j1");
  sockets.at(-1)?.onopen();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(store.getSnapshot().context.jobs["j1"]?.status).toBe("succeeded");

  const removed = { code: "job_removed", title: "Removed", detail: "This run was removed.", status: 404, hint: "" };
  answers["/jobs/j1"] = [404, removed];
  const event = { seq: 7, type: "job.removed", job_id: "j1", at: "", data: {} };
  sockets.at(-1)?.onmessage({ data: JSON.stringify(event) });
  await vi.advanceTimersByTimeAsync(1_000);
  const { jobs, problems } = store.getSnapshot().context;
  expect([jobs["j1"], problems["j1"]?.code]).toEqual([undefined, "job_removed"]);

  // The page was not connected when it was removed, and its socket resumes without that event.
  answers["/jobs/j1"] = [200, { id: "j1", status: "succeeded", created_at: "2026-11-29T00:00:00Z" }];
  sockets.at(-1)?.onopen();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(store.getSnapshot().context.jobs["j1"]).toBeDefined();
  answers["/jobs/j1"] = [404, removed];
  sockets.at(-1)?.onopen();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(store.getSnapshot().context.jobs["j1"]).toBeUndefined();
  leave();
});

const ofList = (id: string, status: string) => ({
  id,
  status,
  created_at: "2026-11-29T00:00:00Z",
  tags: [],
  archived_at: null,
});

it("A run that changes while the list is being read is shown as it is, although the list has its record from before", async () => {
  const slow = Promise.withResolvers<void>();
  answers = {
    "/jobs": [200, { jobs: [ofList("j2", "running")], next_cursor: null }, slow.promise],
    "/jobs?ids": [200, { jobs: [ofList("j2", "succeeded")], next_cursor: null }],
  };
  const leave = showList(EVERYTHING);
  await vi.advanceTimersByTimeAsync(100);
  const event = { seq: 8, type: "job.transition", job_id: "j2", at: "", data: { to: "terminal" } };
  sockets.at(-1)?.onmessage({ data: JSON.stringify(event) });
  await vi.advanceTimersByTimeAsync(1_000);
  slow.resolve();
  await vi.advanceTimersByTimeAsync(2_000);
  const { jobs, list } = store.getSnapshot().context;
  expect([jobs["j2"]?.status, list.ids]).toEqual(["succeeded", ["j2"]]);
  leave();
});

it.each([
  ["the list is", "/jobs"],
  ["the changed runs are", "/jobs?ids"],
])("A run that is removed while %s being read does not return with that answer", async (_, late) => {
  const slow = Promise.withResolvers<void>();
  const page = { jobs: [ofList("j3", "succeeded")], next_cursor: null };
  const heard = (seq: number, type: string) =>
    sockets.at(-1)?.onmessage({ data: JSON.stringify({ seq, type, job_id: "j3", at: "", data: {} }) });
  answers = { "/jobs": [200, page], "/jobs?ids": [200, page], [late]: [200, page, slow.promise] };
  const leave = showList(EVERYTHING);
  await vi.advanceTimersByTimeAsync(100);
  heard(9, "job.changed");
  await vi.advanceTimersByTimeAsync(1_000);
  heard(10, "job.removed");
  answers["/jobs?ids"] = [200, { jobs: [], next_cursor: null }];
  await vi.advanceTimersByTimeAsync(100);
  slow.resolve();
  await vi.advanceTimersByTimeAsync(1_000);
  const { jobs, list } = store.getSnapshot().context;
  expect([list.phase, jobs["j3"], list.ids.includes("j3")]).toEqual(["ready", undefined, false]);
  leave();
});
