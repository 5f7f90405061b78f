// One fault at one program, from its start to the last bill: `node leaks.ts NAME FAULT SECONDS_FACTOR DIR VENVS`, in a network
// and a process table of its own, so that nothing leaves this computer and every program finds its usual ports free.
// `run.ts` starts it; the last line that it prints is the outcome.
//
// L1. Every program gets the same fault of the same simulator, the same prices, and the same time.
// L2. A kill takes the server and the commands at once, as a power cut does. The server is started again two seconds later.
// L3. After the fault the user does nothing for `aloneMs`. Then the user asks it to end all, and once more after
//     two minutes if it still lists something.
// L4. A machine that is billed `lastMs` after the first request to end all is a machine left.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { makeFleet } from "../../test/sim/machines/fleet.ts";
import { realClock } from "../../test/sim/providers/clock.ts";
import { makeFaults } from "../../test/sim/providers/faults.ts";
import { costUsd, makeLedger } from "../../test/sim/providers/ledger.ts";
import type { FaultName, Faults, SimLedger } from "../../test/sim/providers/parts.ts";
import { PodhostSim } from "../../test/sim/providers/podhost.ts";
import { pause } from "../lib/measure.ts";
import { NAMES, type Contestant, type Ground, type Name } from "./contestant.ts";
import { Dstack } from "./dstack.ts";
import { Ours } from "./ours.ts";
import { killMarked } from "./processes.ts";
import { SkyPilot } from "./skypilot.ts";

export const makeContestant = (name: Name, ground: Ground): Contestant =>
  name === "svc" ? new Ours(ground) : name === "dstack" ? new Dstack(ground) : new SkyPilot(ground);

/** When the program is killed; absent: never. */
type Kill = "create sent" | "machine made" | "machine ready" | "delete refused";

interface Case {
  what: string;
  faults: Partial<Record<FaultName, number>>;
  kill?: Kill;
  /** Time without a user after the fault. */
  aloneMs: number;
}

const MINUTE = 60_000;
const USUAL = 2 * MINUTE;

export const CASES = {
  "create-lost": { what: "the reply of create is lost", faults: { lost_after_create: 1 }, aloneMs: USUAL },
  "create-500": {
    what: "create answers 500 and has made the machine",
    faults: { error_after_create: 1 },
    aloneMs: USUAL,
  },
  "late-list": {
    what: "kill -9 as the machine is made, and the list shows it a minute late",
    faults: { listing_lag: MINUTE },
    kill: "machine made",
    aloneMs: USUAL,
  },
  "delete-lies": { what: "delete is accepted twice without effect", faults: { delete_ignored: 2 }, aloneMs: MINUTE },
  "delete-fails": { what: "delete fails for two minutes", faults: { delete_errors: 2 * MINUTE }, aloneMs: MINUTE },
  "price-above-cap": {
    what: "the machine costs three times its offer, twice the cap",
    faults: { price_higher: 300 },
    aloneMs: USUAL,
  },
  "ssh-never": { what: "the machine never comes up", faults: { boot_never: 1 }, aloneMs: 11 * MINUTE },
  "kill-in-create": {
    what: "kill -9 while create is under way",
    faults: { slow_create: 9_000 },
    kill: "create sent",
    aloneMs: USUAL,
  },
  "kill-when-ready": {
    what: "kill -9 five seconds after the machine is ready",
    faults: {},
    kill: "machine ready",
    aloneMs: USUAL,
  },
  "kill-in-delete": {
    what: "kill -9 while delete fails for 20 s",
    faults: { delete_errors: 20_000 },
    kill: "delete refused",
    aloneMs: USUAL,
  },
} as const satisfies Record<string, Case>;
export type CaseName = keyof typeof CASES;
export const CASE_NAMES = Object.keys(CASES) as CaseName[];

/** Time for a program's own retries after the user's request: dstack repeats a failed delete every 30 s, for 15 minutes. */
const LAST_MS = 5 * MINUTE;
const AGAIN_MS = 2 * MINUTE;
/** Time in which an order must reach the provider, on a busy computer. */
const ORDER_MS = 12 * MINUTE;

export interface Outcome {
  name: Name;
  fault: CaseName;
  /** Machines that the provider made. */
  made: number;
  /** Machines billed after the time alone, before any user asked. */
  billedAlone: number;
  /** The runs and machines that it listed as open at that time. */
  openAlone: string;
  /** Machines billed at the end. */
  left: number;
  usd: number;
  /** Machine minutes, of all machines. */
  minutes: number;
  /** How often the user asked it to end all. */
  asked: number;
  /** The same at the end. */
  open: string;
}

const API_KEY = "peers-key-0123456789abcdef";
/** An ended machine is missing at once: SkyPilot knows no state of a pod that has ended. */
const TIMINGS = { pullMs: 5_000, portsMs: 1_000, sshdMs: 500, exitedMs: 0 };

async function play(name: Name, fault: CaseName, dir: string, venvs: string): Promise<Outcome> {
  const chosen: Case = CASES[fault];
  mkdirSync(join(dir, "machines"), { recursive: true });
  mkdirSync(join(dir, "home"), { recursive: true });
  const fleet = await makeFleet({ dir: join(dir, "machines") });
  const clock = realClock();
  const asks = { deletes: 0 };
  const faults = watched(makeFaults(), asks);
  const start = clock.now();
  const say = (line: string): void => console.log(`${((clock.now() - start) / 1_000).toFixed(1)} ${line}`);
  const ledger = makeLedger((event, line) => say(`machine ${event}: ${line.name} ${line.endedBy ?? ""}`));
  const sim = await PodhostSim.start({
    fleet,
    ledger,
    faults,
    clock,
    apiKey: API_KEY,
    timings: TIMINGS,
    onCall: (line) => say(line),
  });
  const program = makeContestant(name, { dir: join(dir, "home"), simUrl: sim.url, apiKey: API_KEY, venvs });
  say(`ready after ${(await program.start()).toFixed(0)} ms`);
  for (const [each, measure] of Object.entries(chosen.faults)) faults.set(each as FaultName, measure);
  const reached = chosen.kill === undefined ? null : moment(chosen.kill, { faults, ledger, sim, asks });
  const submitted = program.submit();
  let asked = 0;
  if (chosen.kill === "delete refused") {
    // It is killed during its user's request to end all.
    await within(() => sim.pods.all.size > 0 && [...sim.pods.all.values()].every((pod) => pod.portsShown), ORDER_MS);
    await pause(5_000);
    asked++;
    void program.stop();
  }
  const struck = await (reached ?? within(() => ledger.all().length > 0, ORDER_MS));
  if (!struck) throw new Error("its order did not come that far in time");
  if (chosen.kill !== undefined) {
    say("kill -9");
    await killMarked();
    await pause(2_000);
    say(`ready again after ${(await program.start()).toFixed(0)} ms`);
  }
  await submitted;
  say("the user does nothing");
  await pause(chosen.aloneMs);
  const billedAlone = ledger.alive().length;
  const openAlone = await listed(program);
  say(`billed: ${billedAlone}; listed: ${openAlone}; the user asks it to end all`);
  const end = clock.now() + LAST_MS;
  asked++;
  await program.stop();
  await within(() => ledger.alive().length === 0, AGAIN_MS);
  if ((await listed(program)) !== "") {
    say(`listed: ${await listed(program)}; the user asks again`);
    asked++;
    await program.stop();
  }
  await within(() => ledger.alive().length === 0, Math.max(1_000, end - clock.now()));
  // An order that comes late would show here.
  await pause(15_000);
  const now = clock.now();
  const lines = ledger.all();
  const outcome: Outcome = {
    name,
    fault,
    made: lines.length,
    billedAlone,
    openAlone,
    left: ledger.alive().length,
    usd: lines.reduce((sum, line) => sum + costUsd(line, now), 0),
    minutes: lines.reduce((sum, line) => sum + ((line.endedAtMs ?? now) - line.madeAtMs) / MINUTE, 0),
    asked,
    open: await listed(program),
  };
  await killMarked();
  await sim.close();
  await fleet.close();
  return outcome;
}

const listed = (program: Contestant): Promise<string> =>
  program.open().catch((error: unknown) => `(no answer: ${String(error)})`);

/** True once it has come; false if it has not come in time. */
async function moment(
  kill: Kill,
  world: { faults: Faults; ledger: SimLedger; sim: PodhostSim; asks: Asks },
): Promise<boolean> {
  const { faults, ledger, sim, asks } = world;
  if (kill === "create sent") return within(() => faults.get("slow_create") === null, ORDER_MS);
  if (kill === "machine made") return within(() => ledger.alive().length > 0, ORDER_MS);
  if (kill === "delete refused") return within(() => asks.deletes > 0, 2 * ORDER_MS);
  const came = await within(() => [...sim.pods.all.values()].some((pod) => pod.portsShown), ORDER_MS);
  if (came) await pause(5_000);
  return came;
}

interface Asks {
  deletes: number;
}

/** Counts deletes: the simulator looks for this fault at each. */
const watched = (faults: Faults, asks: Asks): Faults => ({
  ...faults,
  get(name) {
    if (name === "delete_errors") asks.deletes++;
    return faults.get(name);
  },
});

async function within(holds: () => boolean, ms: number): Promise<boolean> {
  const end = performance.now() + ms;
  while (!holds()) {
    if (performance.now() > end) return false;
    await pause(25);
  }
  return true;
}

if (process.argv[1] === import.meta.filename) {
  const [, , name, fault, dir, venvs] = process.argv;
  const known = NAMES.find((each) => each === name);
  if (!known || !fault || !(fault in CASES) || !dir || !venvs) throw new Error("usage: leaks.ts NAME FAULT DIR VENVS");
  const outcome = await play(known, fault as CaseName, dir, venvs);
  console.log(`outcome: ${JSON.stringify(outcome)}`);
  process.exit(0);
}
