// A temporary home on the disk, with the real store and the real engine.

import { execFileSync } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { JobIds } from "../../src/domain/ids.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { openStore, prepareHome, type Sqlite } from "../../src/store/database.ts";
import { EngineStore } from "../../src/store/engine-store.ts";

export async function withFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "svc-bench-")));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** `watch` receives the connection before any statement is prepared on it. */
export async function openHome(home: string, watch: (db: Sqlite) => void = () => {}): Promise<EngineStore> {
  prepareHome(home);
  const opened = await openStore(home, { newInstallationId: "benchbenchbench1", now: Date.now() });
  watch(opened.db);
  return new EngineStore(opened);
}

const ids = new JobIds(() => Date.now());
export const newJobId = (): string => ids.next();

export const specText = JSON.stringify(
  RunSpec.parse({ entrypoint: "train.py", project_dir: "/home/somebody/projects/example" }),
);

export function newJob(id: string): Parameters<Engine["create"]>[0] {
  return {
    id,
    input: { nodes: 1, max_runtime_ms: null },
    row: {
      label: "bench",
      provider: "local",
      gpus: "cpu",
      nodes: 1,
      spec: specText,
      code_snapshot: null,
      left_out: null,
      idem_key: null,
      idem_hash: null,
    },
  };
}

/** The Python that runs scripts here, resolved: a `python3` on the PATH may be a shell script that searches for one. */
export const interpreter = (): string =>
  execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
