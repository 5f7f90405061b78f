// Files that a script saves in the project's folder of a machine, behind a real sshd: svc downloads none of them, and says so.
// @module-tag needs/sshd

import { mkdirSync, renameSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { RunHost } from "../../src/providers/host.ts";
import { besideFiles } from "../../src/steps/follow/beside-checkpoints.ts";
import type { FollowedRun } from "../../src/steps/follow/log-follower.ts";
import { ended, never, TestMachine } from "./machine.ts";

let machine: TestMachine;
beforeEach(async () => {
  machine = await TestMachine.start();
});
afterEach(() => machine.close());

const words = async (host: Partial<RunHost>, isOver = true) =>
  (await besideFiles({ host } as FollowedRun, isOver, never))?.words ?? null;
const project = (path: string): string => join(machine.base, "project", path);
function put(path: string): void {
  mkdirSync(dirname(project(path)), { recursive: true });
  writeFileSync(project(path), "weights");
}

it("Results that the script leaves in the project's folder are named, largest first, and nothing else there", async () => {
  for (const path of ["train.py", "old.pt", "tiny.onnx"]) put(path);
  // As the upload leaves them.
  for (const path of ["old.pt", "tiny.onnx"]) utimesSync(project(path), 1_700_000_000, 1_700_000_000);
  const host = machine.host();
  const script = `mkdir -p ${machine.base}/checkpoints out .cache venv
    printf 1234567890 > model.pt; printf 12 > out/pytorch_model.bin; printf 1 > "out/a$(printf '\\033')b.pt"; printf 123 > tiny.onnx
    printf 1 > train.log; printf 1 > .cache/hidden.pt; : > empty.pt
    touch venv/pyvenv.cfg; printf 1 > venv/in.pt; printf 1 > ${machine.base}/checkpoints/kept.pt`;
  await host.start(machine.spec(script, { cwd: project("") }), {}, never);
  symlinkSync("/etc", project("linked"));
  await ended(host);
  const told = await words(host);
  expect(told).toBe(
    "The script saved files outside of the checkpoint directory, which svc does not download: " +
      "model.pt (10 B), tiny.onnx (3 B), out/pytorch_model.bin (2 B) and 1 more, 16 B in all. " +
      "They are deleted with the machine. Save them in svc.checkpoint_dir() next time.",
  );
  expect(await words(host, false)).toContain("copy them with `svc ssh` before the run ends");
});

it.each(
  ["ckpt", "pt", "pth", "bin", "safetensors", "gguf", "onnx", "keras", "h5", "hdf5"].concat([
    "joblib",
    "pkl",
    "pickle",
    "msgpack",
    "npz",
  ]),
)("A file that ends with .%s counts as a result of the script", async (ending) => {
  const host = machine.host();
  put("train.py");
  await host.start(machine.spec(`printf 1 > out.${ending}; printf 1 > out.csv`, { cwd: project("") }), {}, never);
  await ended(host);
  expect(await words(host)).toContain(`: out.${ending} (1 B). They are deleted`);
});

it("No warning comes of a run that saves nothing there, that never started, or whose machine does not answer", async () => {
  const host = machine.host();
  expect(await words(host)).toBeNull();
  put("old.pt");
  utimesSync(project("old.pt"), 1_700_000_000, 1_700_000_000);
  await host.start(machine.spec("true", { cwd: project("") }), {}, never);
  await ended(host);
  expect(await words(host)).toBeNull();
  expect(await words({})).toBeNull();
  expect(await words({ besideCheckpoints: () => Promise.reject(new Error("lost")) })).toBeNull();
});

it("Results are named next to a data set with more files than svc looks at, in one folder or in many", async () => {
  put("train.py");
  const host = machine.host();
  const script = `mkdir -p out/run data && printf 12 > out/run/model.pt
    (cd data && for i in $(seq 600); do mkdir c$i; done && seq 11000 | sed 's#.*#c1/&.jpg#' | xargs touch
    seq 42000 | awk '{ print "c" 2 + $1 % 500 "/" $1 ".jpg" }' | xargs touch); mv out zout`;
  await host.start(machine.spec(script, { cwd: project("") }), {}, never);
  await ended(host);
  expect(await words(host)).toContain("zout/run/model.pt (2 B)");
  renameSync(project("zout"), project("aout"));
  expect(await words(host)).toContain("aout/run/model.pt (2 B)");
});
