import { expect, test } from "vitest";
import { killThrough, type Killer } from "../../src/cli/commands/kill/kill-through.ts";
import type { Io } from "../../src/cli/io.ts";
import { SvcError } from "../../src/errors/index.ts";
import type { JobRecord } from "../../src/schemas/job.ts";

test("each of very many runs receives the kill, even after one that fails, and the command waits for the others", async () => {
  const ids = Array.from({ length: 300 }, (_, i) => `job${i}`);
  const status = new Map<string, JobRecord["status"]>(ids.map((id) => [id, "running"]));
  const record = (id: string) => ({ id, status: status.get(id), note: null }) as JobRecord;
  let [open, most] = [0, 0];
  const killer: Killer = {
    async kill(id) {
      most = Math.max(most, ++open);
      await new Promise((resolve) => setImmediate(resolve));
      open -= 1;
      if (id === "job7") throw new SvcError("disk_full", { path: "/home" });
      status.set(id, "terminating");
      return record(id);
    },
    job(id) {
      status.set(id, "cancelled");
      return Promise.resolve(record(id));
    },
  };
  let out = "";
  const io = {
    out: (text: string) => Promise.resolve(void (out += text)),
    err: () => undefined,
    interrupted: new AbortController().signal,
  } as unknown as Io;
  const options = { jobs: [], all: true, wait: true, json: false };
  await expect(killThrough(killer, ids, options, io, 0)).rejects.toMatchObject({ code: "disk_full" });
  expect(most).toBeLessThanOrEqual(64);
  expect(out.match(/\tcancelled\n/g)).toHaveLength(299);
});

test("a kill reports that a run had already ended: `failed` next to its id does not mean that the kill failed", async () => {
  const record = { id: "job1", status: "failed", note: null } as JobRecord;
  const killer: Killer = { kill: () => Promise.resolve(record), job: () => Promise.resolve(record) };
  const said: string[] = [];
  const io = {
    out: () => Promise.resolve(),
    err: (text: string) => void said.push(text),
    interrupted: new AbortController().signal,
  } as unknown as Io;
  expect(await killThrough(killer, ["job1"], { jobs: ["job1"], all: false, wait: true, json: false }, io, 0)).toBe(0);
  expect(said).toEqual(["job1: had already ended; nothing was killed"]);
});
