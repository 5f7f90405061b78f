// A world with machines to rent: a simulated provider with machines that boot, and a control plane in a separate
// process, both with the same faster clock. The control plane can be killed at a boundary and started again.

import { fork, type ChildProcess } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JobRecord, ReconcileReport } from "../../src/schemas/job.ts";
import type { Placement } from "../../src/schemas/placement.ts";
import { loadSshKey } from "../../src/ssh/keys.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { ssh } from "../sim/harness-parts.ts";
import { makeFleet } from "../sim/machines/fleet.ts";
import { makeFaults } from "../sim/providers/faults.ts";
import { makeLedger, type LedgerListener } from "../sim/providers/ledger.ts";
import type { Faults, Fleet, ProviderSim, SimLedger, SimParts } from "../sim/providers/parts.ts";
import { PodhostSim } from "../sim/providers/podhost.ts";
import { scaledClock } from "../sim/providers/clock.ts";
import { startSim, type SimName } from "../sim/providers/start.ts";
import type { KillPoint, Told, WorldOrder } from "./words.ts";

/** A run at each provider. `podhost-rest` is the same provider if it serves only its second API. */
export const SPECS = {
  podhost: { provider: "podhost", gpus: "RTX4090", price_cap: 2 },
  "podhost-rest": { provider: "podhost", gpus: "RTX4090", price_cap: 2 },
  market: { provider: "market", gpus: "RTX4090", price_cap: 2 },
  cloudvm: { provider: "cloudvm", gpus: "L4" },
  notebook: { provider: "notebook", gpus: "T4" },
} as const satisfies Record<SimName | "podhost-rest", Record<string, unknown>>;
export type ProviderCase = keyof typeof SPECS;
export const PROVIDERS = Object.keys(SPECS) as ProviderCase[];

/** Seconds of the control plane and the provider in one second of this computer. */
export const FACTOR = 30;
const DISK_MB_MAX = 256;
const API_KEY = "sim-key-0123456789";
const CHILD = join(import.meta.dirname, "control-plane.child.ts");
/** Each start compiles the same sources; with this cache a cell takes a quarter less time. */
const COMPILED = join(import.meta.dirname, "../../node_modules/.cache/compiled");

/** Prints numbered lines and saves one checkpoint half way. */
const SCRIPT = `import os, sys, time
lines, seconds = int(sys.argv[1]), float(sys.argv[2])
for i in range(1, lines + 1):
    print("line %d" % i, flush=True)
    if i == lines // 2:
        target = os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "half.bin")
        with open(target + ".tmp", "wb") as f:
            f.write(b"c" * 100000)
        os.rename(target + ".tmp", target)
    time.sleep(seconds / lines)
`;

export interface WorldOptions {
  provider: ProviderCase;
  /** The run's output: the number of lines, and the seconds of this computer that they take. */
  lines?: number;
  seconds?: number;
  spec?: Record<string, unknown>;
  /** Further providers whose machines the run may use. */
  others?: readonly ProviderCase[];
  /** The text of `train.py`, which replaces SCRIPT. */
  script?: string;
  /** A folder that becomes the project, instead of one with only `train.py`. */
  project?: string;
  jobs?: number;
  /** Instead of FACTOR. */
  factor?: number;
  /** Further variables of the control plane. */
  env?: Record<string, string>;
}

/** The results at the end of the world. */
export interface Ending {
  records: JobRecord[];
  logs: string[];
  checkpoints: string[][];
  placements: Placement[][];
}

export class World {
  readonly provider: ProviderCase;
  readonly dir: string;
  readonly home: string;
  readonly faults: Faults;
  readonly ledger: SimLedger;
  readonly fleet: Fleet;
  readonly sim: ProviderSim;
  /** Those of `others`, each with its own faults; ledger, fleet and clock are shared. */
  readonly others: ReadonlyMap<ProviderCase, { sim: ProviderSim; faults: Faults }>;
  /** Boundaries that any life of the control plane has reported, in order. */
  readonly events: { name: string; data: Record<string, unknown> }[] = [];
  lives = 0;
  /** The control plane's standard error. */
  said = "";
  readonly lines: number;
  readonly #order: Omit<WorldOrder, "kill">;
  /** The variables of the control plane. */
  readonly env: NodeJS.ProcessEnv;
  readonly #watchers = new Set<(name: string, data: Record<string, unknown>) => void>();
  #child: ChildProcess | null = null;
  #exited: Promise<void> = Promise.resolve();
  #ending: Ending | null = null;
  #refused: string | null = null;
  #reconciled: ((report: ReconcileReport) => void) | null = null;
  #kill: KillPoint | null = null;

  private constructor(
    options: WorldOptions,
    made: Pick<World, "dir" | "home" | "faults" | "ledger" | "fleet" | "sim" | "others"> & { startMs: number },
  ) {
    this.provider = options.provider;
    this.dir = made.dir;
    this.home = made.home;
    this.faults = made.faults;
    this.ledger = made.ledger;
    this.fleet = made.fleet;
    this.sim = made.sim;
    this.others = made.others;
    const project = join(made.dir, "project");
    this.lines = options.lines ?? 150;
    const spec = {
      ...SPECS[options.provider],
      entrypoint: "train.py",
      args: [String(this.lines), String(options.seconds ?? 1.5)],
      project_dir: project,
      // Only the owner of a notebook can tell that it is gone; the test must not wait for ever. Two faults may take ten minutes
      // before its closed tunnel counts as the end.
      ...(options.provider === "notebook" && { max_runtime_minutes: 20 }),
      ...options.spec,
    };
    const jobs = Array.from({ length: options.jobs ?? 1 }, () => spec);
    this.#order = { home: made.home, project, startMs: made.startMs, factor: options.factor ?? FACTOR, jobs };
    const env = Object.assign({}, ...this.#sims().map((sim) => sim.settings().env)) as NodeJS.ProcessEnv;
    this.tellSettings();
    const { SSH_AUTH_SOCK: _, SVC_HOME: __, ...own } = process.env;
    this.env = { NODE_COMPILE_CACHE: COMPILED, ...own, ...env, SVC_GATE_INDEX: "off", ...options.env };
  }

  static async start(options: WorldOptions): Promise<World> {
    const dir = mkdtempSync(join(tmpdir(), "svc-rented-"));
    const home = join(dir, "home");
    for (const folder of [home, join(dir, "project"), join(dir, "fleet")]) mkdirSync(folder, { mode: 0o700 });
    if (options.project === undefined) writeFileSync(join(dir, "project", "train.py"), options.script ?? SCRIPT);
    else cpSync(options.project, join(dir, "project"), { recursive: true });
    const startMs = Date.now();
    const faults = makeFaults();
    let listener: LedgerListener = () => undefined;
    const ledger = makeLedger((event, line) => listener(event, line));
    const fleet = smallDisks(await makeFleet({ dir: join(dir, "fleet") }));
    const { publicKeyLine } = await loadSshKey({ path: null, home });
    const clock = scaledClock(options.factor ?? FACTOR, startMs);
    const parts: SimParts = { fleet, ledger, faults, clock, apiKey: API_KEY };
    const sim = await simulator(options.provider, parts, publicKeyLine);
    // Lists have pages of one machine: foreign machines come first, and ours on a later page.
    if (sim.pageSize !== undefined) sim.pageSize = 1;
    const others = new Map<ProviderCase, { sim: ProviderSim; faults: Faults }>();
    for (const name of options.others ?? []) {
      const own = makeFaults();
      others.set(name, { sim: await simulator(name, { ...parts, faults: own }, publicKeyLine), faults: own });
    }
    const world = new World(options, { dir, home, faults, ledger, fleet, sim, others, startMs });
    listener = (event) => world.#saw(`sim.${event}`);
    return world;
  }

  /** The faults of one of its providers. */
  faultsOf(provider: ProviderCase): Faults {
    const faults = provider === this.provider ? this.faults : this.others.get(provider)?.faults;
    if (!faults) throw new Error(`this world has no ${provider}`);
    return faults;
  }

  /** Calls `act` each time a boundary is passed. */
  watch(act: (name: string, data: Record<string, unknown>) => void): void {
    this.#watchers.add(act);
  }

  #sims(): ProviderSim[] {
    return [this.sim, ...[...this.others.values()].map(({ sim }) => sim)];
  }

  /** Calls `act` the next time that this boundary is passed, in whichever life. */
  once(name: string, act: () => void): void {
    const watcher = (seen: string): void => {
      if (seen !== name) return;
      this.#watchers.delete(watcher);
      act();
    };
    this.#watchers.add(watcher);
  }

  /** Resolves when a control plane has reached the boundary. */
  async passed(name: string, ms = DEADLINE_MS): Promise<void> {
    if (this.events.some((event) => event.name === name)) return;
    await within(ms, () => `${name} is passed`, new Promise<void>((resolve) => this.once(name, resolve)));
  }

  #saw(name: string, data: Record<string, unknown> = {}): void {
    this.events.push({ name, data });
    if (this.#kill === name && name.startsWith("sim.")) {
      this.#kill = null;
      this.#child?.kill("SIGKILL");
    }
    for (const watcher of this.#watchers) watcher(name, data);
  }

  /** Starts another control plane; it kills itself at `kill`. */
  begin(kill: KillPoint | null = null, env: Record<string, string> = {}): void {
    this.lives += 1;
    this.#kill = kill;
    const order: WorldOrder = { ...this.#order, kill };
    const child = fork(CHILD, [], {
      env: { ...this.env, ...env, SVC_WORLD: JSON.stringify(order) },
      execPath: process.execPath,
      execArgv: [],
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#child = child;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.said = (this.said + text).slice(-20_000)));
    child.on("message", (told: Told) => {
      if (told.is === "event") this.#saw(told.name, told.data);
      if (told.is === "refused") this.#refused = told.why;
      if (told.is === "reconciled") this.#reconciled?.(told.report);
      if (told.is === "over") {
        this.#ending = told;
        this.#saw("over");
      }
    });
    this.#exited = new Promise((resolve) => {
      child.once("exit", (code, signal) => {
        this.#saw("life.ended", { code, signal });
        resolve();
      });
    });
  }

  /** The results, once every job has ended. */
  get ending(): Ending | null {
    return this.#ending;
  }

  /** Why the job was not accepted. */
  get refused(): string | null {
    return this.#refused;
  }

  /** Stops the control plane as the sleep of a laptop does. */
  freeze(): void {
    this.#child?.kill("SIGSTOP");
  }

  /** Ends the control plane as a power cut would. */
  async kill(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.#exited;
  }

  /**
   * Runs until every job has ended, with a second control plane after a kill, and a little longer while the provider
   * still has a machine of ours. Throws an error if that takes too long.
   */
  async live(kill: KillPoint | null = null, ms = 150_000): Promise<Ending> {
    const end = Date.now() + ms;
    this.begin(kill);
    for (;;) {
      if (this.#refused !== null) throw new Error(`the job was refused: ${this.#refused}`);
      if (this.#ending) break;
      if (Date.now() > end) throw new Error(`not over after ${ms / 1000} s; ${this.story()}`);
      const exited = await Promise.race([this.#exited.then(() => true), pause(50)]);
      if (exited !== true || this.#ending) continue;
      if (this.lives > 4) throw new Error(`the control plane keeps ending: ${this.said.slice(-600)}`);
      this.begin();
    }
    // The poll after a job's end finds a machine that a create call made late.
    for (let look = 0; look < 300 && this.ledger.alive().length > 0; look += 1) await pause(50);
    return this.#ending;
  }

  /** Runs one command on the first machine, with its owner's key. */
  async onMachine(command: string): Promise<string> {
    const [machine] = this.fleet.machines();
    if (!machine) throw new Error("there is no machine");
    const keyPath = join(this.home, "ssh", "id_ed25519");
    const { code, out, err } = await ssh({ host: machine.address, port: machine.port, user: "root", keyPath }, command);
    if (code !== 0) throw new Error(`${command}: exit ${code}: ${err}`);
    return out;
  }

  /** The owner writes the provider's present addresses into the settings. */
  tellSettings(): void {
    const blocks = this.#sims().map((sim) => sim.settings().credentials as { providers?: object });
    const providers = Object.assign({}, ...blocks.map((block) => block.providers ?? {})) as object;
    const credentials = { ...Object.assign({}, ...blocks), providers } as object;
    writeFileSync(join(this.home, "credentials.json"), JSON.stringify(credentials), { mode: 0o600 });
  }

  /** The report of a dry run of `svc reconcile`. */
  reconcile(): Promise<ReconcileReport> {
    const report = new Promise<ReconcileReport>((resolve) => (this.#reconciled = resolve));
    this.#child?.send({ ask: "reconcile" });
    return within(30_000, () => "the control plane reconciles", report);
  }

  /** The boundaries passed so far, shortened. */
  story(): string {
    const names = this.events.map((event) => event.name).filter((name) => name !== "log");
    return names.slice(-14).join(" ");
  }

  /** Ends the control plane, as its user would. */
  async end(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    if (child.connected) child.send({ ask: "close" });
    const late = setTimeout(() => child.kill("SIGKILL"), 3_000);
    await this.#exited;
    clearTimeout(late);
  }

  /** Ends everything; `keep` preserves the folder. */
  async close({ keep = false } = {}): Promise<void> {
    await this.end();
    await Promise.all(this.#sims().map((sim) => sim.close()));
    await this.fleet.close();
    if (!keep) rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Disks are in this computer's memory, and a full disk uses its whole size: several worlds must fit into it. */
function smallDisks(fleet: Fleet): Fleet {
  const boot: Fleet["boot"] = (request) => fleet.boot({ ...request, diskMb: Math.min(request.diskMb, DISK_MB_MAX) });
  return { kind: fleet.kind, boot, machines: () => fleet.machines(), close: () => fleet.close() };
}

function simulator(provider: ProviderCase, parts: SimParts, publicKey: string): Promise<ProviderSim> {
  if (provider === "podhost-rest") return PodhostSim.start({ ...parts, retired: true });
  return startSim(provider, { ...parts, authorizedKeys: [publicKey], accountKeys: [publicKey], noticeMs: 30_000 });
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

async function within<T>(ms: number, what: () => string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms / 1000} s: ${what()}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
