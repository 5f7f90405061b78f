// `svc wait` as a process: each condition, each exit code, and a control plane that restarts meanwhile.

import { readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { until, Workplace, type Served } from "./serving.ts";

/** Logs a falling loss, waits until the file in its argument exists, and saves a checkpoint. */
const TRAIN = `import os, sys, time
import svc
for i, loss in enumerate([1.0, 0.5, 0.05, 0.4]):
    svc.log({"loss": loss}, step=i)
with open(os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "model.bin"), "wb") as out:
    out.write(b"x" * 100)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
sys.exit(int(sys.argv[2]))
`;

const at = new Workplace();
let served: Served;
beforeAll(async () => {
  at.file("train.py", TRAIN);
  served = await at.serve();
});
afterAll(() => at.close());

const end = (place: Workplace, gate: string): void => writeFileSync(join(place.project, gate), "");

test("A run meets conditions while it runs, and `finished` once it has ended", async () => {
  const id = await at.submit(served, "train.py", ["go", "3"]);
  const met = (status: string) => ({ code: 0, out: `${id}\tmet\t${status}\n`, err: "" });
  expect(at.svc("wait", id, "--for", "running")).toEqual(met("running"));
  expect(at.svc("wait", "last", "--for", "metric:loss<0.1", "--timeout", "60s")).toEqual(met("running"));

  const late = at.svc("wait", id, "--for", "metric:loss<0.01", "--timeout", "1s");
  expect([late.code, late.out]).toEqual([124, `${id}\ttimeout\trunning\n`]);
  expect(late.err).toContain("The runs continue");

  end(at, "go");
  expect(at.svc("wait", id)).toEqual(met("failed"));
  expect(at.svc("wait", id, "--for", "checkpoint")).toEqual(met("failed"));
  const other = at.svc("wait", id, "--for", "succeeded", "--json");
  expect([other.code, JSON.parse(other.out)]).toEqual([1, { jobs: [{ id, result: "ended", status: "failed" }] }]);
  expect(other.err).toContain("The script ended with exit code 3");
  expect(at.svc("wait", id, "--for", "metric:loss>2").err).toContain("No value of loss met the condition");
  expect(at.svc("wait", id, "--for", "metric:los>2").err).toContain("did you mean loss?");
  expect(at.svc("wait", id, "--for", "running").code).toBe(0);
});

test("A restart of the control plane does not end the wait", async () => {
  const own = Workplace.own("it is killed");
  onTestFinished(() => own.close());
  own.file("train.py", TRAIN);
  const first = await own.serve();
  const id = await own.submit(first, "train.py", ["go", "0"]);
  expect(own.svc("wait", id, "--for", "running").code).toBe(0);
  first.child.kill("SIGKILL");
  await first.exited;
  const waiting = own.start("wait", id, "--for", "succeeded");
  await until(() => waiting.err().includes("No control plane is running"), "svc wait says that none runs");
  await own.serve();
  end(own, "go");
  expect(await waiting.exited).toBe(0);
  expect(waiting.out()).toBe(`${id}\tmet\tsucceeded\n`);
});

test("Ctrl-C ends the wait with 130 and leaves the run alone", { tags: "needs/linux" }, async () => {
  const id = await at.submit(served, "train.py", ["go after Ctrl-C", "0"]);
  const waiting = at.start("wait", id);
  // It waits once it has opened the store.
  const files = `/proc/${waiting.child.pid}/fd`;
  const opened = (): string[] =>
    readdirSync(files).flatMap((fd) => {
      try {
        return readlinkSync(join(files, fd));
      } catch {
        return []; // closed since it was listed
      }
    });
  await until(() => opened().some((path) => path.endsWith("/svc.db")), "svc wait has opened the store");
  waiting.child.kill("SIGINT");
  expect(await waiting.exited).toBe(130);
  expect(await at.status(served, id)).not.toBe("cancelled");
  end(at, "go after Ctrl-C");
  expect(at.svc("wait", id, "--for", "succeeded").code).toBe(0);
});

test.each([
  [["--for", "finish"], "Did you mean finished?"],
  [["--for", "metric:loss=1"], "metric:loss<0.1"],
  [["--for", "metric:loss<>1"], "(<, <=, >, >=)"],
  [["--for", "metric:loss=>1"], "(<, <=, >, >=)"],
  [["--timeout", "soon"], "--timeout must be a duration"],
])("%j is refused in plain words", (flags, words) => {
  const r = at.svc("wait", "abc", ...flags);
  expect([r.code, r.err.includes(words)], r.err).toEqual([2, true]);
});

test("An unknown run ends with exit code 3", () => {
  expect(at.svcIn(join(at.root, "unused"), "wait", "abc").code).toBe(3);
});
