// Decides the folder of a run: in place on this computer, or below one folder of its machine; and the guard that ends
// that machine by itself.

import { join } from "node:path";
import { givenUmask } from "../../platform/own-umask.ts";
import type { Resumes } from "../checkpoints/resume-choices.ts";
import { SvcError } from "../../errors/index.ts";
import { GUARD_GRACE_SECONDS_MIN, guardDir, guardTimes } from "../../providers/guard.ts";
import type { Guard } from "../../providers/host.ts";
import type { MachineHandle, PreemptionNotice, Provider } from "../../providers/provider.ts";
import type { RunnerSpec } from "../../schemas/runner.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { heldHandle } from "../rental/held-machine.ts";
import type { SnapshotPlace } from "../../files/code/code-snapshot.ts";
import { checkEntrypoint, keptEntrypoint } from "../../files/entrypoint.ts";
import { localPython, pythonVariables } from "./local-python.ts";
import { installCommand } from "./install-command.ts";
import { stopGraceSeconds } from "../../domain/stop-grace.ts";
import type { JobFacts, Ledger } from "../ports.ts";
import { idleWindowMs } from "./runner-spec.ts";
import { homeLayout } from "../../platform/home-layout.ts";

export interface PlaceParts {
  home: string;
  env: NodeJS.ProcessEnv;
  programRoot: string;
  ledger: Ledger;
  providers: ReadonlyMap<string, Provider>;
  resumes: Resumes;
  /** The Python of this computer. */
  python: () => Promise<string>;
}

export async function runPlaceOf(
  { home, env, programRoot, ledger, providers, resumes, python }: PlaceParts,
  { id, spec, projectDir }: JobFacts,
  code: () => SnapshotPlace,
  node: number,
  purpose: "run" | "install",
) {
  const resumeFrom = async (checkpointDir: string): Promise<string | null> => {
    const chosen = await resumes.of(id);
    return chosen === null ? null : `${checkpointDir}/${chosen.name}`;
  };
  const handle = heldHandle(ledger, id, node);
  const provider = handle === null ? undefined : providers.get(handle.provider);
  const access = handle === null ? null : provider?.access(handle);
  if (!handle || !access || access.inPlace) {
    const checkpointDir = homeLayout.nodeCheckpoints(home, id, node);
    const entry = await checkEntrypoint(projectDir, spec.entrypoint);
    const runPython = await localPython({ spec, projectDir, entry, env, otherwise: python });
    return {
      entry,
      projectDir,
      inPlace: true,
      umask: givenUmask(),
      installed: false,
      python: runPython,
      pythonEnv: await pythonVariables(runPython, env),
      resumeFrom: await resumeFrom(checkpointDir),
      checkpointDir,
      dataDir: homeLayout.nodeData(home, id, node),
      packageDir: join(programRoot, "python"),
      addresses: ["127.0.0.1"],
      inherited: env,
    };
  }
  const { project, checkpoints, data, packages, environment } = access.layout();
  const installed = purpose === "run" && "environment" in (await installCommand(spec, code(), projectDir));
  const addresses = Array.from({ length: spec.nodes }, (_, k) => {
    const peer = heldHandle(ledger, id, k);
    return spec.nodes === 1 ? "127.0.0.1" : (peer?.extra?.["private_address"] ?? peer?.ssh?.[0]?.host ?? "");
  });
  return {
    entry: await keptEntrypoint(projectDir, spec.entrypoint, code()),
    projectDir: project,
    inPlace: false,
    installed,
    python: installed ? `${environment}/bin/python` : (handle.extra?.["python"] ?? "python3"),
    resumeFrom: await resumeFrom(checkpoints),
    checkpointDir: checkpoints,
    dataDir: data,
    packageDir: packages,
    addresses,
    inherited: {},
    keep: keepOf(spec, guardOf(spec, provider, handle), handle, purpose),
    notice: purpose === "run" ? noticeFor(spec, provider?.preemptionNotice?.(handle) ?? null) : undefined,
  };
}

/** The guard's file that the runner updates, if the machine has a guard. */
function keepOf(spec: RunSpec, guard: Guard | null, handle: MachineHandle, purpose: "run" | "install") {
  if (guard === null) return undefined;
  return {
    file: `${guardDir(handle.name)}/keep`,
    grace_seconds: Math.max(GUARD_GRACE_SECONDS_MIN, guard.graceSeconds),
    idle_seconds: purpose === "run" ? idleWindowMs(spec) / 1000 : 0,
  };
}

/** The part of a provider's notice that is kept for downloads; the script saves in the rest of it. */
const DOWNLOAD_SECONDS = 10;

/** The address at which the runner learns that the machine is taken back, if there is one. */
function noticeFor(spec: RunSpec, notice: PreemptionNotice | null): RunnerSpec["notice"] {
  if (notice === null) return undefined;
  const { hostname, port, pathname, search } = new URL(notice.url);
  return {
    host: hostname,
    port: port === "" ? 80 : Number(port),
    path: `${pathname}${search}`,
    headers: { ...notice.headers },
    says: notice.says,
    grace_seconds: Math.max(0, Math.min(stopGraceSeconds(spec), notice.seconds - DOWNLOAD_SECONDS)),
  };
}

export function guardOf(spec: RunSpec, provider: Provider | undefined, handle: MachineHandle): Guard | null {
  const selfEnd = selfEndOf(provider, handle.name);
  return selfEnd === null ? null : { ...guardTimes(spec), selfEnd };
}

/**
 * A living guard keeps the text with which it was started; one that starts while the address is wrong can only wait.
 */
function selfEndOf(provider: Provider | undefined, machine: string): string | null {
  try {
    return provider?.selfEnd(machine) ?? null;
  } catch (e) {
    if (e instanceof SvcError && e.code === "provider_unavailable")
      return "echo 'the address of the provider was unknown'; return 1";
    throw e;
  }
}
