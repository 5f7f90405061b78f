// `svc code` as processes, on a real home, during a run and after the control plane has ended.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CLI, Workplace } from "./serving.ts";

let at: Workplace;
beforeEach(() => void (at = Workplace.own("each test ends it and reads on")));
afterEach(() => at.close());

test("code is listed, shown, compared and restored, with a control plane and without", async () => {
  at.file("train.py", "rate = 0.1\nprint('trained')\n");
  at.file("weights.bin", "\u0000\u0001");
  writeFileSync(join(at.project, "prepare.sh"), "#!/bin/sh\n");
  chmodSync(join(at.project, "prepare.sh"), 0o755);
  const served = await at.serve();
  const one = await at.submit(served, "train.py");
  at.file("train.py", "rate = 0.2\nprint('trained')\n");
  const two = await at.submit(served, "train.py");

  const listed = at.svc("code", "ls", one).out.trimEnd().split("\n");
  expect(
    listed.map((row) => row.split("\t")).map(([mode, size, digest, path]) => [mode, size, digest?.length, path]),
  ).toEqual([
    ["755", "10", 64, "prepare.sh"],
    ["644", "28", 64, "train.py"],
    ["644", "2", 64, "weights.bin"],
  ]);
  expect(at.svc("code", "show", one, "train.py").out).toBe("rate = 0.1\nprint('trained')\n");
  expect(JSON.parse(at.svc("code", "show", one, "weights.bin", "--json").out)).toMatchObject({ base64: "AAE=" });
  expect(at.svc("code", "show", one, "none.py").code).toBe(3);
  served.child.kill("SIGTERM");
  await served.exited;

  const told = at.svc("code", "diff", one, two);
  expect([told.code, told.out]).toEqual([
    0,
    "diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n-rate = 0.1\n+rate = 0.2\n print('trained')\n",
  ]);
  expect(at.svc("code", "diff", two, "--exit-code")).toMatchObject({ code: 0, out: "" });
  expect(at.svc("code", "diff", one, "--exit-code", "--stat")).toMatchObject({
    code: 1,
    out: "changed\t1\t1\ttrain.py\t\n",
  });
  const other = join(at.root, "other");
  mkdirSync(other);
  const removed = JSON.parse(at.svc("code", "diff", one, "--dir", other, "--json").out) as {
    changes: { status: string }[];
  };
  expect(removed.changes.map((c) => c.status)).toEqual(["removed", "removed", "removed"]);

  const elsewhere = { cwd: other, env: at.env, encoding: "utf8" } as const;
  const fromElsewhere = spawnSync(CLI, ["code", "diff", one, "--stat"], elsewhere);
  expect([fromElsewhere.stdout, fromElsewhere.stderr]).toEqual([
    "changed\t1\t1\ttrain.py\t\n",
    `Compared with the job's project, ${at.project}; use --dir to choose another directory.\n`,
  ]);

  const restored = join(at.root, "restored");
  expect(at.svc("code", "restore", one, restored).code).toBe(0);
  expect(readFileSync(join(restored, "train.py"), "utf8")).toContain("0.1");
  expect(statSync(join(restored, "prepare.sh")).mode & 0o111).not.toBe(0);
  writeFileSync(join(restored, "train.py"), "mine\n");
  rmSync(join(restored, "weights.bin"));
  const refused = at.svc("code", "restore", one, restored, "--json");
  expect([refused.code, JSON.parse(refused.err).error.code]).toEqual([1, "restore_refused"]);
  expect(readFileSync(join(restored, "train.py"), "utf8")).toBe("mine\n");
  expect(JSON.parse(at.svc("code", "restore", one, restored, "--force", "--json").out)).toMatchObject({
    written: ["train.py", "weights.bin"],
    replaced: ["train.py"],
    same: 1,
  });

  rmSync(join(at.home, "code/snapshots"), { recursive: true });
  const lost = at.svc("code", "ls", one, "--json");
  expect([lost.code, JSON.parse(lost.err).error.code]).toEqual([1, "code_snapshot_damaged"]);
});

test("arguments that `svc code` does not accept are refused with the usage", () => {
  for (const words of [
    ["lst"],
    ["show"],
    ["diff", "a", "b", "c"],
    ["ls", "--force"],
    ["restore", "a", "b", "--stat"],
    ["restore", "a", ""],
  ]) {
    const { code, err } = at.svc("code", ...words);
    expect([words, code]).toEqual([words, 2]);
    expect(err).toContain("svc code");
  }
});

test("`svc code ls --left-out` lists the excluded files of a run and of the current directory", async () => {
  at.file("train.py", "print('trained')\n");
  at.file(".env", "TOKEN=1\n");
  symlinkSync(at.root, join(at.project, "outside"));
  const served = await at.serve();
  const job = await at.submit(served, "train.py");
  await expect.poll(() => at.status(served, job), { timeout: 90_000 }).toBe("succeeded");
  served.child.kill("SIGTERM");
  await served.exited;
  const [secret, link] = at.svc("code", "ls", job, "--left-out").out.trimEnd().split("\n");
  expect(secret).toBe(".env\tit may hold a secret; `!name` in a .svcignore takes it back");
  expect(link).toContain(`outside\tthe symlink leads out of the project, to ${realpathSync(at.root)}; `);
  rmSync(join(at.project, "outside"));
  expect(JSON.parse(at.svc("code", "ls", job, "--left-out", "--json").out)).toMatchObject({ job_id: job, count: 2 });
  expect(JSON.parse(at.svc("code", "ls", "--left-out", "--json").out)).toMatchObject({
    job_id: null,
    count: 1,
    names: [{ path: ".env" }],
    ignored: 0,
    ignored_names: [],
  });
  expect(JSON.parse(at.svc("jobs", job, "--json").out)).toMatchObject({ jobs: [{ left_out: { count: 2 } }] });
  const timeline = JSON.parse(at.svc("timeline", job, "--json").out) as {
    steps: { step: string; detail: object | null }[];
  };
  expect(timeline.steps.find(({ step }) => step === "sync")?.detail).toMatchObject({ left_out: { count: 2 } });
});
