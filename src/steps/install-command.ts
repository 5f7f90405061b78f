// What has to be run on a machine before the script, and how the script is started there. Asked of the code that was kept at
// submission: the directory may have changed since.

import type { RunSpec } from "../schemas/spec.ts";
import { readSnapshot } from "../files/code-snapshot.ts";

/** What the install step starts: a shell command, or the script that makes the environment in which the run then has its Python. */
export type Install = { command: string } | { environment: InstallKind } | { skipped: string };

/** First hit wins. */
const KINDS = ["uv.lock", "requirements.txt", "pyproject.toml", "environment.yml", "environment.yaml"] as const;
export type InstallKind = (typeof KINDS)[number];

/** @param code where the run's code is kept; null for a run that works in place, with this computer's packages. */
export async function installCommand(spec: RunSpec, code: Parameters<typeof readSnapshot>[0] | null): Promise<Install> {
  if (spec.install === "none") return { skipped: "install is none" };
  if (spec.install !== "auto") return { command: spec.install };
  if (code === null) return { skipped: "a local run uses the packages of this computer's Python" };
  const snapshot = await readSnapshot(code);
  const environment = KINDS.find((path) => snapshot?.files.some((file) => file.path === path));
  return environment ? { environment } : { skipped: `the project has none of ${KINDS.join(", ")}` };
}
