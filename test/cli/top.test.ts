// `svc top` as a process: once in a pipe, live on a terminal.

import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLI, Workplace } from "./serving.ts";

let at: Workplace;
let id: string;
beforeAll(async () => {
  at = new Workplace();
  at.file("train.py", "import time\ntime.sleep(600)\n");
  id = await at.submit(await at.serve(), "train.py");
  expect(at.svc("wait", id, "--for", "running").code).toBe(0);
});
afterAll(async () => {
  at.svc("kill", "--all");
  await at.close();
});

test("A pipe gets one row for each run that has not ended", () => {
  const r = at.svc("top");
  expect([r.code, r.err]).toEqual([0, ""]);
  expect(r.out.split("\t").slice(0, 4)).toEqual([id, "running", "local", "cpu"]);
  expect(JSON.parse(at.svc("top", "--json").out)).toMatchObject({
    runs: 1,
    gpus: 0,
    price_per_hour_usd: 0,
    jobs: [{ id }],
  });
  expect(JSON.parse(at.svc("top", "--json", "id").out)).toEqual([{ id }]);
});

test("On a terminal it is drawn until q, which gives the terminal back", () => {
  const program = `import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "top"])
seen = b""
while sys.argv[2].encode() not in seen:
    seen += os.read(fd, 4096)
os.write(fd, b"q")
try:
    while True:
        part = os.read(fd, 4096)
        if not part:
            break
        seen += part
except OSError:
    pass
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`;
  const r = spawnSync("python3", ["-c", program, CLI, id], { env: { ...at.env, TERM: "xterm" }, encoding: "utf8" });
  expect(r.status, r.stdout + r.stderr).toBe(0);
  expect(r.stdout).toContain("1 run  ·  0 GPUs");
  expect(r.stdout.trimEnd().endsWith("\u001b[?25h\u001b[?1049l")).toBe(true);
});
