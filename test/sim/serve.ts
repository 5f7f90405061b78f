// Simulated providers for people: `svc sim` serves them on loopback until it is ended.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { makeFleet } from "./machines/fleet.ts";
import { tool } from "./machines/host-tools.ts";
import { realClock } from "./providers/clock.ts";
import { isFault, makeFaults, MEASURES } from "./providers/faults.ts";
import { costUsd, makeLedger } from "./providers/ledger.ts";
import type { Fleet, LedgerLine, ProviderSim, SimLedger } from "./providers/parts.ts";
import { gpusOnOffer, SIM_NAMES, startSim, type SimName } from "./providers/start.ts";

export interface ServeOptions {
  /** Names of providers; none for all of them. */
  providers: readonly string[];
  /** The port of the first API; the next ones follow. 0: any free ports. */
  port: number;
  /** `NAME` or `NAME=N`. */
  faults: readonly string[];
  /** The seed of all random choices. */
  seed?: number;
  /** A line for every machine made or ended. */
  say(line: string): void;
}

export interface ServedSims {
  kind: Fleet["kind"];
  /** Variables to set in the environment to use them. */
  env: Record<string, string>;
  urls: Record<string, string>;
  /** For each provider, GPUs that it offers as long as no fault removes them. */
  gpus: Record<string, string>;
  /** Dollars that all machines have cost so far. */
  cost(): number;
  /** Ends all machines and deletes the folder, except, if so wanted, the home. */
  close(options?: { keepsHome: boolean }): Promise<void>;
}

/** The cloud's notice to a spot machine, from its documentation. */
const NOTICE_MS = 30_000;

/** The reason why the command line is wrong; null if it is right. */
export function objectionTo({ providers, faults }: Pick<ServeOptions, "providers" | "faults">): string | null {
  const stranger = providers.find((name) => !(SIM_NAMES as readonly string[]).includes(name));
  if (stranger !== undefined) return `${stranger} is not simulated; there are ${SIM_NAMES.join(", ")}`;
  const odd = faults.find((fault) => !isFault(nameOf(fault)) || !/^[a-z0-9_]+(=[0-9]{1,9})?$/.test(fault));
  return odd === undefined ? null : `${odd} is not a fault; there are ${Object.keys(MEASURES).join(", ")}`;
}

const nameOf = (fault: string): string => fault.split("=")[0] ?? "";

/** Everything is in a separate folder, which also serves as SVC_HOME and is removed at the end. */
export async function serveSims(options: ServeOptions): Promise<ServedSims> {
  const dir = mkdtempSync(join(tmpdir(), "svc-sim-"));
  const clock = realClock();
  const ledgers: SimLedger[] = [];
  const fleets: Fleet[] = [];
  const sims: ProviderSim[] = [];
  const close = async ({ keepsHome } = { keepsHome: false }): Promise<void> => {
    await Promise.all(sims.map((sim) => sim.close()));
    await Promise.all(fleets.map((fleet) => fleet.close()));
    const goes = keepsHome ? SIM_NAMES.map((name) => join(dir, name)) : [dir];
    for (const each of goes) rmSync(each, { recursive: true, force: true });
  };
  try {
    const home = join(dir, "home");
    const key = join(home, "ssh", "id_ed25519");
    mkdirSync(join(home, "ssh"), { recursive: true, mode: 0o700 });
    await tool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "svc-sim", "-f", key]);
    const names = SIM_NAMES.filter((name) => options.providers.length === 0 || options.providers.includes(name));
    // No traffic leaves this computer: its machines have no package index to measure.
    const env: Record<string, string> = { SVC_HOME: home, SVC_GATE_INDEX: "off" };
    const providers: Record<string, unknown> = {};
    for (const [i, name] of names.entries()) {
      const fleetDir = join(dir, name);
      mkdirSync(fleetDir);
      const fleet = await makeFleet({ dir: fleetDir });
      fleets.push(fleet);
      const ledger = makeLedger((event, line) => options.say(told(name, event, line, clock.now())));
      ledgers.push(ledger);
      const faults = makeFaults();
      for (const fault of options.faults) {
        const [word = "", measure] = fault.split("=");
        if (isFault(word)) faults.set(word, measure === undefined ? undefined : Number(measure));
      }
      const apiKey = `sim-${randomBytes(16).toString("hex")}`;
      const authorizedKeys = [readFileSync(`${key}.pub`, "utf8").trim()];
      const port = options.port === 0 ? 0 : options.port + i;
      const parts = { fleet, ledger, faults, clock, apiKey, ...(options.seed !== undefined && { seed: options.seed }) };
      const sim = await startSim(name, { ...parts, authorizedKeys, port, noticeMs: NOTICE_MS });
      sims.push(sim);
      const settings = sim.settings();
      Object.assign(env, settings.env);
      Object.assign(providers, settings.credentials["providers"]);
    }
    writeFileSync(join(home, "credentials.json"), `${JSON.stringify({ providers }, null, 2)}\n`, { mode: 0o600 });
    return {
      kind: fleets[0]?.kind ?? "plain",
      env,
      urls: Object.fromEntries(sims.map((sim) => [sim.name, sim.url])),
      gpus: Object.fromEntries(names.map((name) => [name, gpusOnOffer(name)])),
      cost: () => ledgers.flatMap((ledger) => ledger.all()).reduce((sum, line) => sum + costUsd(line, clock.now()), 0),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function told(provider: SimName, event: "made" | "ended", line: LedgerLine, nowMs: number): string {
  const what = `${new Date(nowMs).toISOString().slice(11, 19)} ${provider} ${line.name || line.id}`;
  if (event === "made") return `${what}: made${line.usdPerHour === 0 ? "" : `, $${line.usdPerHour.toFixed(2)}/h`}`;
  return `${what}: ended (${line.endedBy ?? "?"}) after ${((nowMs - line.madeAtMs) / 1000).toFixed(1)} s, $${costUsd(line, nowMs).toFixed(4)}`;
}

/** The missing programs of those that simulated machines need. */
export const missingPrograms = (): string[] =>
  [
    ["/usr/sbin/sshd", "openssh-server"],
    ["/usr/bin/ssh-keygen", "openssh-client"],
  ].flatMap(([path = "", name = ""]) => (existsSync(path) ? [] : [name]));
