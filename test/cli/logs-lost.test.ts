// `svc logs -f` in this process, whose clock the test sets, on a run whose control plane was killed and never comes back.

import { afterEach, expect, test, vi } from "vitest";
import { logs } from "../../src/cli/commands/logs.ts";
import type { Io } from "../../src/cli/io.ts";
import { Workplace } from "./serving.ts";

let at: Workplace;
afterEach(async () => {
  vi.restoreAllMocks();
  await at.close();
});

test("logs -f ends with 5, not with 0, if no control plane resumes the run within a minute", async () => {
  at = new Workplace();
  at.file("train.py", 'import time\nwhile True:\n  print("step", flush=True)\n  time.sleep(0.05)\n');
  const served = await at.serve();
  const id = await at.submit(served, "train.py");
  let [parts, err] = [0, ""];
  let clockMs = 0;
  vi.spyOn(performance, "now").mockImplementation(() => clockMs);
  const io = {
    // The stored log comes in one part, or in two; the others come from the control plane.
    out: () => {
      if ((parts += 1) === 10) served.child.kill("SIGKILL");
      return Promise.resolve();
    },
    err: (text: string) => {
      err += `${text}\n`;
      if (text.includes("waiting 60 s")) clockMs = 60_001;
    },
    status: () => undefined,
    tty: false,
    env: at.env,
    cwd: at.project,
    home: () => at.home,
    interrupted: new AbortController().signal,
  } as unknown as Io;
  const code = await logs.run(
    { args: [id], flags: new Set(["follow"]), values: new Map(), json: false, fields: null },
    io,
  );
  expect(code).toBe(5);
  expect(err).toContain(
    `No control plane started within 60 s. Run ${id} is unfinished, and costs nothing on this computer.`,
  );
  at.svc("kill", id);
});
