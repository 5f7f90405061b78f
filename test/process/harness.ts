// The product as its user runs it: `svc serve` on a separate home, with scripts that record what they write.

import Database from "better-sqlite3";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OUTCOMES } from "../../src/schemas/names.ts";
import { refold } from "../../src/engine/journal.ts";
import { JOB_MACHINE_VERSION } from "../../src/machines/job-machine.ts";
import type { JobRecord, Metrics, Timeline } from "../../src/schemas/job.ts";
import type { JobRow, JournalRow } from "../../src/store/tables.ts";
import { countStart } from "../control-planes.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { MAIN } from "../program.ts";

export const ROOT = join(import.meta.dirname, "../..");
const ENDED: readonly string[] = OUTCOMES;
/**
 * Uses a new connection for each request: the control plane may close an idle one just when a busy test uses it again.
 */
const ALONE = { connection: "close" };

export interface ServeOptions {
  env?: NodeJS.ProcessEnv;
  uid?: number;
  /** A program, with its arguments, that starts the control plane. */
  under?: string[];
}

/** One `svc serve`. Its output goes to files, so that a busy parent never blocks it. */
export class Served {
  readonly child: ChildProcess;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #out: string;
  readonly #err: string;
  readonly #file: string;

  constructor(place: Place, options: ServeOptions, n: number) {
    this.#file = join(place.home, "control-plane.json");
    this.#out = join(place.root, `serve-${n}.out`);
    this.#err = join(place.root, `serve-${n}.err`);
    const files = [this.#out, this.#err].map((path) => openSync(path, "w", 0o666));
    const who = options.uid === undefined ? {} : { uid: options.uid, gid: options.uid };
    const [program, ...args] = [...(options.under ?? []), process.execPath, MAIN, "serve", "--port", "0", "--json"];
    this.child = spawn(program, args, {
      cwd: place.project,
      env: { ...place.env, ...options.env },
      stdio: ["ignore", files[0], files[1]],
      ...who,
    });
    for (const fd of files) closeSync(fd);
    this.exited = new Promise((done) => this.child.once("exit", (code, signal) => done({ code, signal })));
  }

  get pid(): number {
    return this.child.pid as number;
  }
  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }
  get err(): string {
    return readFileSync(this.#err, "utf8");
  }
  get out(): string {
    return readFileSync(this.#out, "utf8");
  }
  /**
   * Whether it has announced its address: in its first line or, if that cannot be written, in the file that the
   * commands read.
   */
  get announced(): boolean {
    return this.out.includes("\n") || existsSync(this.#file);
  }
  get url(): string {
    const said = this.out.includes("\n") ? (this.out.split("\n")[0] ?? "") : readFileSync(this.#file, "utf8");
    return (JSON.parse(said) as { url: string }).url;
  }

  async ready(): Promise<this> {
    await until(() => this.out.includes("\n") || !this.running, "svc serve is ready");
    if (!this.out.includes("\n"))
      throw new Error(`svc serve ended (${this.child.exitCode ?? this.child.signalCode}): ${this.err}`);
    return this;
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async kill(): Promise<void> {
    if (this.running) this.child.kill("SIGKILL");
    await this.exited;
  }

  async get<T>(path: string): Promise<T> {
    // A timeout reports a hanging control plane instead of waiting for it.
    const answer = await fetch(this.url + path, { signal: AbortSignal.timeout(DEADLINE_MS), headers: ALONE });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }
  async text(path: string): Promise<string> {
    return Buffer.from(await (await fetch(this.url + path, { headers: ALONE })).arrayBuffer()).toString("latin1");
  }
  async post(path: string, body: unknown): Promise<{ status: number; body: Record<string, unknown> }> {
    const answer = await fetch(this.url + path, {
      method: "POST",
      headers: { ...ALONE, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }
  job(id: string): Promise<JobRecord> {
    return this.get(`/jobs/${id}`);
  }
  timeline(id: string): Promise<Timeline> {
    return this.get(`/jobs/${id}/timeline`);
  }
  metrics(id: string): Promise<Metrics> {
    return this.get(`/jobs/${id}/metrics`);
  }
  async submit(spec: Record<string, unknown>): Promise<string> {
    const { status, body } = await this.post("/jobs", { spec });
    if (status !== 201) throw new Error(`POST /jobs: ${status} ${JSON.stringify(body)}`);
    return body["id"] as string;
  }
  /** Waits for a terminal status. */
  async ended(id: string, msMax = 2 * DEADLINE_MS): Promise<JobRecord> {
    let job = await this.job(id);
    await until(
      async () => ENDED.includes((job = await this.job(id)).status),
      () => `job ${id} (${job.status}) ends`,
      msMax,
    );
    return job;
  }
}

/**
 * Places that are still open. If this process ends early, for example by an interrupt, their processes must end too.
 */
const open = new Set<Place>();
process.on("exit", () => {
  for (const place of open) {
    place.killAll();
    rmSync(place.root, { recursive: true, force: true, maxRetries: 5 });
  }
});

export class Place {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "svc-fault-")));
  readonly home = join(this.root, "home");
  readonly project = join(this.root, "project");
  readonly env: NodeJS.ProcessEnv = { ...process.env, SVC_HOME: this.home };
  readonly #served: Served[] = [];
  readonly #own: string | null;

  /** For the one control plane that the tests of a file share. */
  constructor(own: string | null = null) {
    this.#own = own;
    mkdirSync(this.project);
    open.add(this);
  }

  /** For control planes that no other test uses; `why` says what a test does to them. */
  static own(why: string): Place {
    return new Place(why);
  }

  file(name: string, text: string): void {
    writeFileSync(join(this.project, name), text);
  }

  /** Starts a control plane without waiting until it answers. */
  start(options: ServeOptions = {}): Served {
    countStart(this.#own);
    return this.#start(options);
  }
  #start(options: ServeOptions): Served {
    const served = new Served(this, options, this.#served.length);
    this.#served.push(served);
    return served;
  }
  serve(options: ServeOptions = {}): Promise<Served> {
    return this.start(options).ready();
  }

  /** Starts a control plane that must refuse, and waits for its end. */
  async refused(options: ServeOptions = {}): Promise<{ code: number | null; err: string }> {
    const served = this.#start(options);
    await until(() => !served.running || served.out.includes("\n"), "svc serve refuses", DEADLINE_MS);
    if (served.running) throw new Error(`svc serve started, though it should have refused: ${served.out}`);
    return { code: served.child.exitCode, err: served.err };
  }

  svc(...args: string[]): { code: number | null; out: string; err: string } {
    const r = spawnSync(process.execPath, [MAIN, ...args], {
      env: this.env,
      cwd: this.project,
      encoding: "utf8",
      timeout: 120_000,
    });
    return { code: r.status, out: r.stdout, err: r.stderr };
  }

  /** Copies the home of another place, whose control planes have ended. */
  copyHome(from: Place): void {
    const { status, stderr } = spawnSync("cp", ["-a", from.home, this.home], { encoding: "utf8" });
    if (status !== 0) throw new Error(`cp ended with ${status}: ${stderr}`);
  }

  /** Opens the store to read or to damage it. */
  db<T>(use: (db: Database.Database) => T): T {
    const db = new Database(join(this.home, "svc.db"), { timeout: DEADLINE_MS });
    try {
      return use(db);
    } finally {
      db.close();
    }
  }

  /** The last output of the control planes and the state of each step, for the message of a test that times out. */
  lastWords(): string {
    const said = this.#served.map((s) => s.err.slice(-2_000));
    const sql = `SELECT step, effect.state, attempt.attempt, status, error FROM effect JOIN attempt ON effect_id = effect.id`;
    try {
      return JSON.stringify({ said, steps: this.db((db) => db.prepare(sql).all()) });
    } catch (e) {
      return JSON.stringify({ said, steps: String(e) });
    }
  }

  /** The stored log on the disk. */
  log(id: string): Buffer {
    const path = join(this.home, "logs", `${id}.log`);
    return existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
  }

  /**
   * Checks that every journal leads to its stored snapshot. Returns the number of journals. A run that ended under an older machine version
   * was folded by that one: it is only counted.
   */
  refolds(): number {
    return this.db((db) => {
      const jobs = db.prepare("SELECT id, version, snapshot FROM job").all() as Pick<
        JobRow,
        "id" | "version" | "snapshot"
      >[];
      for (const job of jobs.filter(({ version }) => version === JOB_MACHINE_VERSION)) {
        const rows = db.prepare("SELECT * FROM journal WHERE job_id = ? ORDER BY seq").all(job.id) as JournalRow[];
        const { text, differsAt } = refold(rows);
        if (differsAt !== null || text !== job.snapshot)
          throw new Error(`journal of ${job.id} differs at ${differsAt}`);
      }
      return jobs.length;
    });
  }

  /** Pids of all processes that have a run directory of this home, or of this job, in their environment. */
  processes(job?: string): number[] {
    return processesWith(`SVC_RUN_DIR=${job === undefined ? this.home : join(this.home, "runs", job)}`);
  }

  /** Pids of those that belong to a script; a runner may outlive its script while it waits for a disk. */
  scripts(job?: string): number[] {
    const scripts = new Set(processesWith("SVC_RUN_NONCE="));
    return this.processes(job).filter((pid) => scripts.has(pid));
  }

  /** Ends every control plane of this place at once. */
  async end(): Promise<void> {
    for (const served of this.#served) if (served.running) await served.kill();
  }

  /** Kills every process of this place, whoever started it. */
  killAll(): void {
    for (const pid of [...this.processes(), ...processesWith(`SVC_HOME=${this.home}`)]) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // Gone meanwhile.
      }
    }
  }

  async close(): Promise<void> {
    await this.end();
    // A process that another program started may outlive that program.
    this.killAll();
    await until(() => this.processes().length === 0, "nothing of this home runs any more");
    open.delete(this);
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Pids of living processes with an environment variable that begins with this text. */
export function processesWith(text: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, "latin1")
          .split("\0")
          .some((v) => v.startsWith(text));
      } catch {
        return false;
      }
    });
}

/** Polls until the condition holds; if it never does, the error names it. */
export async function until(
  is: () => boolean | Promise<boolean>,
  what: string | (() => string),
  msMax = 120_000,
): Promise<void> {
  for (const end = performance.now() + msMax; !(await is());) {
    if (performance.now() > end) throw new Error(`not within ${msMax} ms: ${typeof what === "string" ? what : what()}`);
    await new Promise((r) => setTimeout(r, 25));
  }
}

export const pause = (ms: number): Promise<void> => new Promise((r) => setTimeout(r, ms));

/** SHA-256 by path, of every plain file below a folder; `except` leaves out files that may change. */
export function hashes(folder: string, except: RegExp = /^$/): Record<string, string> {
  if (!existsSync(folder)) return {};
  if (!statSync(folder).isDirectory()) return { "": createHash("sha256").update(readFileSync(folder)).digest("hex") };
  const out: Record<string, string> = {};
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(folder.length + 1);
    if (entry.isFile() && !except.test(name)) out[name] = createHash("sha256").update(readFileSync(path)).digest("hex");
  }
  return out;
}

/** A small generator with a seed: a failing test prints its seed, which repeats it. */
export function random(seed: number): () => number {
  let s = seed >>> 0;
  return () => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), s | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

export function seedOf(name: string): number {
  const seed = Number(process.env["SVC_TEST_SEED"] ?? Date.now() % 1_000_000);
  console.log(`${name}: SVC_TEST_SEED=${seed}`);
  return seed;
}
