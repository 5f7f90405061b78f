// A simulated provider for control planes in processes of their own: it makes, bills and ends machines on which nothing runs.

import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadSshKey } from "../../src/ssh/keys.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { MAIN } from "../program.ts";
import { makeFleet } from "../sim/machines/fleet.ts";
import { realClock } from "../sim/providers/clock.ts";
import { makeFaults } from "../sim/providers/faults.ts";
import type { makeLedger } from "../sim/providers/ledger.ts";
import { startSim } from "../sim/providers/start.ts";
import type { Place } from "./harness.ts";

/** Connects the control planes of `place` to it. `close` ends it; the place must be closed before. */
export async function idleMachines(place: Place, ledger: ReturnType<typeof makeLedger>) {
  for (const folder of [place.home, join(place.root, "fleet")]) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const fleet = await makeFleet({ dir: join(place.root, "fleet") });
  const faults = makeFaults();
  faults.set("boot_never", 1_000_000);
  const { publicKeyLine } = await loadSshKey({ path: null, home: place.home });
  const parts = { fleet, ledger, faults, clock: realClock(), apiKey: "sim-0123456789abcdef" };
  const sim = await startSim("podhost", { ...parts, authorizedKeys: [publicKeyLine] });
  const { env, credentials } = sim.settings();
  Object.assign(place.env, env, { SVC_GATE_INDEX: "off" });
  writeFileSync(join(place.home, "credentials.json"), JSON.stringify(credentials), { mode: 0o600 });
  const close = async (): Promise<void> => {
    await sim.close();
    await fleet.close();
  };
  return { faults, close };
}

/** A command of svc. The simulated provider answers from this process, so it must not block. */
export const svcBeside = (place: Place, ...args: string[]): Promise<{ code: unknown; out: string; err: string }> =>
  new Promise((resolve) => {
    const options = { env: place.env, cwd: place.project, timeout: DEADLINE_MS };
    execFile(process.execPath, [MAIN, ...args], options, (failed, out, err) =>
      resolve({ code: failed?.code ?? failed?.signal ?? 0, out, err }),
    );
  });
