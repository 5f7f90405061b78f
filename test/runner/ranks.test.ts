// Several ranks write at once: every line is complete, and names its rank.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parseLog } from "../../src/domain/log-stream.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import { finish, python, startRun, until } from "./harness.ts";

const packages = resolve(import.meta.dirname, "../../python");
const folder = mkdtempSync(join(tmpdir(), "svc-ranks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The parts of torch that the launcher uses, with processes that are started as torch starts them. */
const TORCH: Record<string, string> = {
  "torch/__init__.py": "",
  "torch/distributed/__init__.py": "",
  "torch/distributed/run.py": `
import os, subprocess, sys
def main(arguments):
    count = next(int(a.split("=")[1]) for a in arguments if a.startswith("--nproc_per_node="))
    script = [a for a in arguments if not a.startswith("--")]
    print("torchrun starts", flush=True)
    ranks = [subprocess.Popen(args=[sys.executable, "-u", *script], env={**os.environ, "RANK": str(r)}, stdout=None, stderr=None)
             for r in range(count)]
    for rank in ranks: rank.wait()
`,
  "torch/distributed/elastic/__init__.py": "",
  "torch/distributed/elastic/multiprocessing/__init__.py": "",
  "torch/distributed/elastic/multiprocessing/api.py":
    "class SignalException(Exception): pass\nclass PContext:\n    def close(self, death_sig=None, timeout=30): pass\n",
  "torch/distributed/elastic/multiprocessing/errors.py": "class ChildFailedError(Exception): pass\n",
};
for (const [name, text] of Object.entries(TORCH)) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

async function launch(code: string, count: number) {
  const script = join(folder, `train-${Math.random().toString(36).slice(2)}.py`);
  writeFileSync(script, code);
  const command = [python, "-u", "-m", "torch.distributed.run", `--nproc_per_node=${count}`, script];
  return startRun([python, "-u", join(packages, "svc/_launch.py"), "torchrun", "--", ...command], {
    env: { PYTHONPATH: `${folder}:${packages}`, SVC_METRICS_MARK: "m4rk" },
    ranks: { first: 0, count },
  });
}

const own = (log: string, rank: number): string[] =>
  log
    .split("\n")
    .filter((line) => line.startsWith(`[rank${rank}] `))
    .map((line) => line.slice(`[rank${rank}] `.length));

describe("the output of several ranks", () => {
  it("has whole lines with their rank, however they were written, and loses none of them", async () => {
    const code = `
import os, random, sys
rank = os.environ["RANK"]
for i in range(300):
    line = ("%s:%d " % (rank, i)) * 300
    cut = random.randrange(len(line))
    out = (1, 2)[i % 2]
    os.write(out, line[:cut].encode()); os.write(out, (line[cut:] + "\\n").encode())
`;
    const { log, status } = await finish(await launch(code, 4));
    expect(status.exit_code).toBe(0);
    const text = log.toString();
    for (let rank = 0; rank < 4; rank++) {
      const lines = own(text, rank);
      expect(lines).toEqual(Array.from({ length: 300 }, (_, i) => `${rank}:${i} `.repeat(300)));
    }
    const others = text.split("\n").filter((line) => !line.startsWith("[rank"));
    expect(others).toContain("torchrun starts");
    expect(others.every((line) => line === "" || line.startsWith("svc: ") || line === "torchrun starts")).toBe(true);
  });

  it("shows a progress bar as it moves, and every state of it, on lines of its rank", async () => {
    const code = `
import os, sys, time
if os.environ["RANK"] == "0":
    for i in range(5): sys.stderr.write("\\rstep %d" % i); sys.stderr.flush(); time.sleep(0.01)
    while not os.path.exists(os.environ["SVC_RUN_DIR"] + "/go"): time.sleep(0.01)
    sys.stderr.write("\\rdone\\n")
else:
    print("other", flush=True)
`;
    const run = await launch(code, 2);
    await until(run, "step 4");
    writeFileSync(join(run.runDir, "go"), "");
    const { log } = await finish(run);
    const text = log.toString();
    for (const state of ["step 0", "step 3", "step 4", "done"]) expect(text).toContain(`\r[rank0] ${state}`);
    expect(own(text, 1)).toEqual(["other"]);
    expect(text.split("\n").every((line) => !(line.includes("rank0") && line.includes("rank1")))).toBe(true);
  });

  it("keeps the metrics of each rank, leaves torch's own marks alone, and ends text without a line end", async () => {
    const code = `
import os, svc
rank = os.environ["RANK"]
if rank == "1": os.environ.pop("SVC_RECORDS")
os.write(1, b"begun, ")
svc.log({"loss": int(rank)}, step=1, all_ranks=True)
os.write(1, b"ended\\n[rank%d]: Traceback\\nlast words" % int(rank))
`;
    const { log } = await finish(await launch(code, 2));
    const { text, records } = parseLog(log, { mark: "m4rk", redactor: new Redactor([]), final: true });
    expect(records.map((record) => record.rank).toSorted((a, b) => a - b)).toEqual([0, 1]);
    for (const rank of [0, 1]) {
      expect(own(text.toString(), rank)).toEqual(["begun, ended", "last words"]);
      expect(text.toString().split("\n")).toContain(`[rank${rank}]: Traceback`);
    }
  });
});

it("A single process's bytes stay unchanged", async () => {
  const { log } = await finish(await startRun([python, "-c", "import os; os.write(1, b'a\\rb\\n\\rc'); os.write(2, b'd')"]));
  expect(log.toString()).toBe("a\rb\n\rcd");
});
