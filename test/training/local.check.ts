// Several ranks on this computer, started by torchrun, and their end.

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { alive, Plane, RANKS, TORCH_PYTHON } from "./plane.ts";

let home: string;
let plane: Plane;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "svc-ranks-"));
  plane = await Plane.open(home, TORCH_PYTHON === undefined ? {} : { SVC_PYTHON: TORCH_PYTHON });
});
afterAll(async () => {
  await plane.cp.close();
  rmSync(home, { recursive: true, force: true });
});

const spec = (mode: string, more = {}) => ({
  entrypoint: "train.py",
  project_dir: RANKS,
  gpus: "cpu:4",
  args: [mode],
  ...more,
});
/** The pid of torchrun itself, found by its command line. */
function torchrunOf(pid: number): number {
  const parent = Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  expect(readFileSync(`/proc/${parent}/cmdline`, "utf8")).toContain("torch.distributed.run");
  return parent;
}

describe.skipIf(TORCH_PYTHON === undefined)("four ranks on this computer", () => {
  it("train together, each with its share of the cores", async () => {
    const { job, log } = await plane.run(spec("ok"));
    expect([job.status, job.exit_code, job.error]).toEqual(["succeeded", 0, null]);
    for (let rank = 0; rank < 4; rank++)
      expect(log).toMatch(new RegExp(`^\\[rank${rank}\\] rank ${rank} of 4: 6; pid`, "m"));
    expect(log).toMatch(/^svc: starting: .*-m torch\.distributed\.run --standalone --nproc_per_node=4 /m);
  });

  it.each([
    ["exit", 7, "The script on rank 3 ended with exit code 7."],
    ["raise", 1, "The script on rank 3 ended with exit code 1: RuntimeError: this rank went wrong."],
    ["killed", 137, "The script on rank 3 was ended by SIGKILL (exit code 137)."],
  ])("when the last one ends by %s, its code is %i and it is named", async (mode, code, words) => {
    const { job, log } = await plane.run(spec(mode));
    expect([job.status, job.exit_code, job.error?.message]).toEqual(["failed", code, words]);
    expect(alive(log)).toEqual([]);
  });

  it("are ended even if they ignore TERM when the run is killed", async () => {
    const id = await plane.start(spec("deaf"));
    await plane.until(() => (plane.log(id).match(/^(?:\[rank\d+\] )?rank /gm)?.length ?? 0) === 4);
    await plane.cp.kill(id);
    const { job, log } = await plane.end(id);
    expect(job.status).toBe("cancelled");
    expect(alive(log)).toEqual([]);
  });

  it("do not outlive torchrun", async () => {
    const id = await plane.start(spec("wait"));
    await plane.until(() => (plane.log(id).match(/^(?:\[rank\d+\] )?rank /gm)?.length ?? 0) === 4);
    const torchrun = torchrunOf(alive(plane.log(id))[0]!);
    process.kill(torchrun, "SIGKILL");
    const { job, log } = await plane.end(id);
    expect([job.status, job.exit_code, existsSync(`/proc/${torchrun}`)]).toEqual(["failed", 137, false]);
    expect(job.error?.message).toBe(
      "The script, or what held its ranks together, was ended by SIGKILL (exit code 137).",
    );
    expect(job.error?.hint).toContain("had no memory left");
    expect(alive(log)).toEqual([]);
  });
});
