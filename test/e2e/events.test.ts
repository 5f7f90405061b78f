// The feed of a real `svc serve` over a real socket: what is replayed, what comes live, and that nothing is missed between.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as shape from "../../src/schemas/job.ts";
import { Place, until, type Served } from "../process/harness.ts";

let place: Place;
let served: Served;

beforeAll(async () => {
  place = new Place();
  place.file("slow.py", 'import time\nfor i in range(20):\n    print("n", i, flush=True)\n    time.sleep(0.05)\n');
  served = await place.serve();
});
afterAll(() => place.close());

describe("events", () => {
  /** A socket that collects messages; events have a seq, hints have none. */
  async function listen(query: string): Promise<{ events: shape.FeedEvent[]; close(): void }> {
    const socket = new WebSocket(`${served.url.replace("http", "ws")}/v1/events${query}`);
    const events: shape.FeedEvent[] = [];
    socket.addEventListener("message", (m) => {
      const value = JSON.parse(String(m.data)) as { seq?: number };
      if (value.seq === undefined) shape.FeedHint.parse(value);
      else events.push(shape.FeedEvent.parse(value));
    });
    await new Promise((open, fail) => {
      socket.addEventListener("open", open);
      socket.addEventListener("error", fail);
    });
    return { events, close: () => socket.close() };
  }

  test("replay everything since a seq, then continue live: no gap, none twice", async () => {
    const all = await listen("?since=0");
    const id = await served.submit({ entrypoint: "slow.py" });
    const onlyNew = await listen("");
    const one = await listen(`?job_id=${id}&since=0`);
    await served.ended(id);
    const over = (events: shape.FeedEvent[]): boolean =>
      events.some((e) => e.job_id === id && e.type === "job.transition" && e.data["to"] === "terminal");
    await until(() => over(all.events) && over(one.events), "the events of the end are there");
    const late = await listen("?since=0");
    await until(() => over(late.events), "the replay is whole");
    const seqs = all.events.map((e) => e.seq);
    expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b));
    expect(late.events.slice(0, all.events.length)).toEqual(all.events);
    expect(one.events).toEqual(all.events.filter((e) => e.job_id === id));
    expect(one.events[0]?.type).toBe("job.created");
    const middle = seqs[Math.floor(seqs.length / 2)] as number;
    const rest = await listen(`?since=${middle}`);
    await until(() => over(rest.events), "the rest is there");
    expect(rest.events.map((e) => e.seq)).toEqual(late.events.map((e) => e.seq).filter((s) => s > middle));
    expect(onlyNew.events.every((e) => e.job_id === id)).toBe(true);
    for (const s of [all, onlyNew, one, late, rest]) s.close();
  });
});
