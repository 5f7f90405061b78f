// cloudvm: how a machine powers itself off although its system, a disk or a mount hangs.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { powerOff } from "../../src/providers/cloudvm/instance-body.ts";

it("powers off without the system's own end once that has not ended it, sooner if the budget is spent, and writes nothing to a disk before", () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-cloudvm-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  writeFileSync(join(dir, "poweroff"), `#!/bin/sh\necho off $* >>${dir}/called\n`, { mode: 0o755 });
  writeFileSync(join(dir, "sync"), `#!/bin/sh\nsleep 60\n`, { mode: 0o755 });
  const run = (env: Record<string, string>): number | null =>
    spawnSync("/bin/sh", ["-c", `svc_env() { echo m1; }\n${powerOff("m1")}`], {
      env: { PATH: `${dir}:/usr/bin:/bin`, ...env },
    }).status;
  const turns = [{ tries: "4" }, { tries: "5" }, { tries: "1", patience: "1" }, { tries: "2", patience: "1" }];
  expect(turns.map(run)).toEqual([0, 0, 0, 0]);
  expect(readFileSync(join(dir, "called"), "utf8")).toBe("off\noff -f -n\noff\noff -f -n\n");
});
