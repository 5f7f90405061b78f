// Checks of jobs with several placements, for all tests with rented machines: machines never overlap, and each part of the log
// begins at a complete checkpoint and has every line after it.

import type { Ending, World } from "./world.ts";

/**
 * Continues to count from its checkpoint. Each line is one step; every tenth step is saved and announced. With a third argument, it
 * stops on the first machine in the middle until that one is taken, however long that takes.
 */
export const COUNTING = `import os, sys, time
import svc
lines, seconds = int(sys.argv[1]), float(sys.argv[2])
folder, begin = os.environ["SVC_CHECKPOINT_DIR"], 0
resume = os.environ.get("SVC_RESUME_FROM")
if resume:
    with open(resume) as f:
        begin = int(f.read())
print("begin %d of placement %s" % (begin, os.environ["SVC_PLACEMENT"]), flush=True)
for i in range(begin + 1, lines + 1):
    print("line %d" % i, flush=True)
    svc.log({"loss": 1.0 / i}, step=i)
    if i % 10 == 0:
        path = os.path.join(folder, "step_%03d" % i)
        with open(path + ".tmp", "w") as f:
            f.write(str(i))
        os.rename(path + ".tmp", path)
        svc.checkpoint(path, step=i)
    if len(sys.argv) > 3 and os.environ["SVC_PLACEMENT"] == "1" and i == lines // 2:
        time.sleep(3600)
    time.sleep(seconds / lines)
`;

/** Machines of ours that are left, or that existed at the same time as another one of the same node. */
export function wrongMachines({ ledger }: World): string[] {
  const wrong: string[] = [];
  const lines = ledger.all().filter((line) => !line.foreign);
  for (const { name, foreign } of ledger.alive()) if (!foreign) wrong.push(`the machine ${name} is left`);
  for (const one of lines) {
    if (ledger.mostAtOnce(one.name) > 1) wrong.push(`two machines at once for ${one.name}`);
    for (const other of lines)
      if (
        one.id < other.id &&
        one.madeAtMs < (other.endedAtMs ?? Infinity) &&
        other.madeAtMs < (one.endedAtMs ?? Infinity)
      )
        wrong.push(`${one.name} and ${other.name} existed at the same time`);
  }
  return wrong;
}

/** One start of the script, as its log shows it. */
export interface Part {
  begin: number;
  /** The numbers of its lines. */
  lines: number[];
}

/** The script prints `begin N of placement P` first, where N is the number of its checkpoint, and then `line N+1` and so on. */
export function partsOf(log: string): Part[] {
  return log
    .split(/^begin (?=\d+ of placement)/m)
    .slice(1)
    .map((text) => ({
      begin: Number(/^\d+/.exec(text)?.[0]),
      lines: [...text.matchAll(/^line (\d+)$/gm)].map((match) => Number(match[1])),
    }));
}

/** @param every number of lines between two checkpoints. */
export function wrongLog(log: string, { every, last }: { every: number; last: number }): string[] {
  const wrong: string[] = [];
  const parts = partsOf(log);
  for (const [n, { begin, lines }] of parts.entries()) {
    // The last line of a machine that was lost may be cut off.
    if (n < parts.length - 1 && String(begin + lines.length).startsWith(String(lines.at(-1)))) lines.pop();
    const at = lines.findIndex((number, index) => number !== begin + index + 1);
    if (at >= 0) wrong.push(`the part from ${begin}: line ${at} reads ${lines[at]}`);
    if (begin % every !== 0) wrong.push(`a part begins at ${begin}, where no checkpoint was`);
  }
  if (parts.at(-1)?.lines.at(-1) !== last)
    wrong.push(`the last part ends at ${parts.at(-1)?.lines.at(-1)}, not ${last}`);
  return wrong;
}

/** The first job must have succeeded. */
export function wrongEnd({ records: [record] }: Ending): string[] {
  return record?.status === "succeeded" ? [] : [`came to ${record?.status}: ${record?.error?.message}`];
}
