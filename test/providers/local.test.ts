// The provider `local`: which of its processes live, ending them with proof, checkpoints, and finding Python.

import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { fetchFile, listFiles } from "../../src/providers/local/checkpoint-files.ts";
import { findPython } from "../../src/providers/local/python.ts";
import { listLocalRuns, terminateLocal } from "../../src/providers/local/local-runs.ts";
import { infoOf } from "../../src/providers/descriptors.ts";
import { ProviderInfo } from "../../src/schemas/job.ts";
import { ended, never, newRun, processesWith, python, runnerPath, until } from "../runner/harness.ts";

const home = mkdtempSync(join(tmpdir(), "svc-local-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe("runs of a home", () => {
  it("lists those with living processes, even if only a daemon is left, and none of another home", async () => {
    const run = newRun("setsid sleep 1000 & echo up; wait", {}, home);
    expect(listLocalRuns(home)).toEqual([]);
    await run.host.start(run.spec, {}, never);
    await until(run, "up");
    expect(listLocalRuns(home)).toEqual([
      { runDir: run.runDir, jobId: run.spec.job_id, node: 0, pids: expect.anything() as number[] },
    ]);
    expect(listLocalRuns(join(home, "runs"))).toEqual([]);
    const status = await run.host.status(never);
    process.kill(status?.runner_pid ?? 0, "SIGKILL");
    await ended(run);
    const [left] = listLocalRuns(home);
    expect(left?.pids.length).toBeGreaterThanOrEqual(1);
    expect(left?.pids).not.toContain(status?.runner_pid);
    await expect(terminateLocal({ runDir: run.runDir, runnerPath, python }, 0, never)).resolves.toMatchObject({
      processes: 0,
    });
    expect(processesWith(run.spec.nonce)).toEqual([]);
    expect(listLocalRuns(home)).toEqual([]);
  });

  it("ends an active run, one that has ended, and one that never existed, with proof", async () => {
    const living = newRun("echo up; sleep 1000", {}, home);
    await living.host.start(living.spec, {}, never);
    const done = newRun("true", {}, home);
    await done.host.start(done.spec, {}, never);
    await ended(done);
    for (const run of [living, done, newRun("true", {}, home)]) {
      const proof = await terminateLocal({ runDir: run.runDir, runnerPath, python }, 0.2, never);
      expect(proof.processes).toBe(0);
      expect(processesWith(run.spec.nonce)).toEqual([]);
    }
    expect(await living.host.status(never)).toMatchObject({ phase: "exited", stopped: true });
    expect(await done.host.status(never)).toMatchObject({ phase: "exited", stopped: false, exit_code: 0 });
  });

  it("describes itself in the schema of providers", () => {
    const info = { ...infoOf("local"), connected: true, source: "none_needed", missing: [] };
    expect(ProviderInfo.parse(info)).toEqual(info);
    // A plan also has "the control plane is ended (terminate_on_exit)": the text must say which end it means.
    expect(info.stops_by_itself).toContain("After a SIGKILL of the control plane its local runs continue");
  });
});

describe("checkpoints", () => {
  it("lists plain files and symlinks to one, and copies one completely or not at all", async () => {
    const run = newRun("true", {}, home);
    const dir = run.spec.checkpoint_dir;
    await run.host.start(run.spec, {}, never);
    await ended(run);
    mkdirSync(join(dir, "step 1"));
    writeFileSync(join(dir, "step 1", "model ü.pt"), "weights", { mode: 0o644 });
    utimesSync(join(dir, "step 1", "model ü.pt"), 1_000, 1_000.5);
    writeFileSync(join(home, "outside"), "secret");
    symlinkSync(join(home, "outside"), join(dir, "link"));
    symlinkSync(home, join(dir, "folder-link"));
    linkSync(join(dir, "step 1", "model ü.pt"), join(dir, "hard.pt"));
    symlinkSync("step 1/model ü.pt", join(dir, "last.pt"));
    const files = await run.host.listCheckpoints(never);
    expect(files.map((f) => [f.path, f.leadsTo ?? f.refused])).toEqual([
      ["folder-link", "it is a symlink that leaves the checkpoint directory"],
      ["hard.pt", undefined],
      ["last.pt", "step 1/model ü.pt"],
      ["link", "it is a symlink that leaves the checkpoint directory"],
      ["step 1/model ü.pt", undefined],
    ]);
    const last = files.find(({ path }) => path === "last.pt");
    await run.host.fetchCheckpoint(last!, join(home, "last"), never);
    expect(readFileSync(join(home, "last"), "utf8")).toBe("weights");
    const file = files.at(-1);
    if (!file) throw new Error("not listed");
    expect(file).toMatchObject({ size: 7, mtimeMs: 1_000_500 });
    const target = join(home, "copy");
    await run.host.fetchCheckpoint(file, target, never);
    expect(readFileSync(target, "utf8")).toBe("weights");
    expect(statSync(target).mode & 0o777).toBe(0o600);
    expect(statSync(target).mtimeMs).toBe(1_000_500);

    const other = join(home, "other");
    for (const [path, code] of [
      ["link", "file_not_found"],
      ["folder-link/outside", "file_not_found"],
      ["../../../outside", "file_not_found"],
      ["gone", "file_not_found"],
    ]) {
      await expect(run.host.fetchCheckpoint({ ...file, path: path as string }, other, never)).rejects.toMatchObject({
        code,
      });
    }
    writeFileSync(join(dir, "step 1", "model ü.pt"), "other weights");
    await expect(run.host.fetchCheckpoint(file, other, never)).rejects.toMatchObject({ code: "file_not_found" });
    expect(statSync(other, { throwIfNoEntry: false })).toBe(undefined);
  });
});

describe("checkpoints that their owner may only read", () => {
  it("are copied like any other, for any user of the control plane", async () => {
    const folder = mkdtempSync(join(tmpdir(), "svc-read-only-"));
    const file = join(folder, "model.pt");
    writeFileSync(file, "weights", { mode: 0o444 });
    const isRoot = process.geteuid?.() === 0; // root may write everywhere
    if (isRoot) for (const path of [folder, file]) chownSync(path, 65_534, 65_534);
    if (isRoot) process.seteuid?.(65_534);
    try {
      const [listed] = await listFiles(folder, never);
      await fetchFile(folder, listed!, join(folder, "copy"));
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
    expect(readFileSync(join(folder, "copy"), "utf8")).toBe("weights");
    expect(statSync(join(folder, "copy")).mode & 0o777).toBe(0o600);
    expect(statSync(file).mode & 0o777).toBe(0o444);
    rmSync(folder, { recursive: true });
  });
});

describe("finding Python", () => {
  const bin = mkdtempSync(join(tmpdir(), "svc-bin-"));
  const fake = (name: string, text: string): string => {
    writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(bin, name), 0o755);
    return join(bin, name);
  };
  afterAll(() => rmSync(bin, { recursive: true, force: true }));

  it("sees through wrapper scripts to the interpreter, and asks each only once", async () => {
    const calls = join(bin, "calls");
    const wrapper = fake("wrapper", `echo x >> ${calls}; exec ${python} "$@"`);
    const first = await findPython({ SVC_PYTHON: wrapper });
    expect(first.path).not.toBe(wrapper);
    expect(first.version).toMatch(/^3\.\d+\.\d+$/);
    expect(await findPython({ SVC_PYTHON: wrapper })).toEqual(first);
    expect(readFileSync(calls, "utf8")).toBe("x\n");
  });

  it("skips too old and broken ones on the PATH, but not a Python that was named", async () => {
    const old = fake("python3", "echo 3.7.9; echo /old/python3");
    fake("python", `exec ${python} "$@"`);
    expect((await findPython({ PATH: bin })).path).toMatch(/^\//);
    await expect(findPython({ PATH: process.env["PATH"], SVC_PYTHON: old })).rejects.toMatchObject({
      code: "python_missing",
      message: expect.stringContaining(`SVC_PYTHON=${old}`) as string,
    });
    await expect(findPython({ PATH: "/nonexistent" })).rejects.toMatchObject({ code: "python_missing" });
  });

  it("is named as missing when it vanished before the start, and no secret stays behind", async () => {
    const run = newRun("true", {}, home);
    const { LocalHost } = await import("../../src/providers/local/local-host.ts");
    const host = new LocalHost({ runDir: run.runDir, runnerPath, python: join(bin, "no-python") });
    await expect(host.start(run.spec, { SECRET: "x" }, never)).rejects.toMatchObject({ code: "python_missing" });
    expect(statSync(join(run.runDir, "env.json"), { throwIfNoEntry: false })).toBe(undefined);
  });
});
