// A run names the files that were left out of its code in three places: the event of its creation, the note of its failure, the first lines of its log.

import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { DurableStorySink } from "../../src/engine/run-log-writer.ts";
import { leftOutLines } from "../../src/files/listing/left-out.ts";
import type { StoredLeftOut } from "../../src/schemas/job.ts";
import { SvcError } from "../../src/errors/index.ts";
import { Harness, removeHomes } from "../engine/harness.ts";

const LINK = { path: "lib", why: "the symlink leads out of the project, to /opt/lib" };
const CACHE = { path: "a.pyc", why: "it can be made again on the machine" };
const told = (missed: number, names = [LINK, CACHE]): StoredLeftOut => ({
  count: names.length,
  names,
  ignored: 3,
  list: "0123456789abcdef",
  missed,
});

let h: Harness;
beforeEach(async () => void (h = await Harness.open()));
afterEach(() => h.end());
afterAll(removeHomes);

async function failed(provider: "local" | "podhost", leftOut?: StoredLeftOut) {
  await h.create("job1", { spec: { provider }, ...(leftOut && { leftOut }) });
  await (await h.upTo("launch")).fail(new SvcError("start_failed", { why: "no such file" }, { retry: "never" }));
  await (await h.upTo("terminate")).done();
  return h.reads.job("job1");
}

describe("Files that were left out of a run's code", () => {
  it("are in the event of its creation, as in its record, without svc's internal fields", async () => {
    await h.create("job1", { leftOut: told(1) });
    const [created] = h.published.filter(({ type }) => type === "job.created");
    const shown = { count: 2, names: [LINK, CACHE], ignored: 3 };
    expect(created?.data["left_out"]).toEqual(shown);
    expect(h.reads.job("job1")?.left_out).toEqual(shown);
  });

  it("are null in the event if none was left out", async () => {
    await h.create("job1");
    expect(h.published[0]?.data["left_out"]).toBeNull();
  });

  it.each([
    ["the first of one", told(1), 'Left out of the code: "lib": the symlink leads out of the project, to /opt/lib.'],
    ["the first of several", told(2), 'Left out of the code: "lib" (and 1 more): the symlink leads out of the project'],
  ])("are the note of a failed run on another machine: %s that a person may miss", async (_, leftOut, words) => {
    expect((await failed("podhost", leftOut))?.note).toMatchObject({
      kind: "code_left_out",
      message: expect.stringContaining(words) as string,
    });
  });

  it.each([
    ["nobody misses them", "podhost" as const, told(0)],
    ["nothing was left out", "podhost" as const, undefined],
    ["the run worked in place", "local" as const, told(1)],
  ])("do not appear in the note if %s", async (_, provider, leftOut) => {
    expect(await failed(provider, leftOut)).toMatchObject({ status: "failed", note: null });
  });

  it("do not appear in the note of a run that succeeded", async () => {
    await h.create("job1", { spec: { provider: "podhost" }, leftOut: told(1) });
    await (await h.upTo("terminate")).done();
    expect(h.reads.job("job1")).toMatchObject({ status: "succeeded", note: null });
  });

  it("are the first lines of its log, once, and only those that the user may miss", async () => {
    const story = new DurableStorySink({ engine: h.engine, home: h.home, hint: () => undefined });
    await h.create("job1", { leftOut: told(1) });
    const lines = leftOutLines("4k2m", told(1));
    await story.preface("job1", lines);
    // The step that sends the code is repeated after a restart.
    await story.preface("job1", lines);
    const log = (): string => h.reads.readLog("job1", 0, 10_000).toString();
    const header = 'svc: "lib" is left out of the code: the symlink leads out of the project, to /opt/lib\n';
    expect(log()).toBe(header);
    const from = { sourceOffset: 0, samplesOffset: 0 };
    const text = Buffer.from("epoch 1\n");
    const part = { text, records: [], samples: [], times: [], from, to: { ...from, sourceOffset: text.length } };
    await story.append({ jobId: "job1", node: 0, stream: "run", ...part });
    await story.preface("job1", ["svc: too late"]);
    expect(log()).toBe(`${header}epoch 1\n`);
    await story.close();
  });
});
