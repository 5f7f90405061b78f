// One control plane per home: the running one, or one that this process starts and that runs as long as a caller holds
// it.
//
// P1. Each process that uses one holds it (hold.ts), and a control plane that this process started also reads from a
//     pipe of this process. When this process ends, for any reason, both are closed. Without holders, the control plane
//     ends like an interrupted one: it releases its machines.
// P2. It has its own session, so a Ctrl-C in the terminal reaches only this process, which shuts it down gracefully.
// P3. It never keeps this process alive; when the script has nothing left to do, this process ends it and waits.

import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, constants, existsSync, fchmodSync, openSync, readFileSync, statSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { homeObjection, makeHome } from "../src/platform/home.ts";
import { Client } from "./client.ts";
import { findControlPlane, readToken } from "./discover.ts";
import { SvcError, type ErrorWords } from "./errors.ts";
import { Hold } from "./hold.ts";
import { homeLayout } from "../src/platform/home-layout.ts";

const START_MS_MAX = 60_000;
const WINNER_MS_MAX = 20_000;
const START_AGAIN_MS = 2_000;
const END_MS_MAX = 130_000;
/** From the last output of a control plane to the end of its process. */
const LAST_MS_MAX = 20_000;

interface Owned {
  child: ChildProcess;
  client: Client;
  log: string;
  ended: Promise<void>;
}

const clients = new Map<string, Promise<Client>>();
const owned = new Map<string, Owned>();
const holds = new Map<string, Hold>();

/** Set on Ctrl-C: a caller that polls at this time must not start another control plane. */
let leaving = false;

/** The client of this home's control plane; starts one if none runs. Never resolves in a process that is leaving. */
export function clientOf(home: string): Promise<Client> {
  if (leaving) return new Promise(() => undefined);
  if (holds.get(home)?.isOver === true) forget(home);
  let known = clients.get(home);
  if (!known) {
    known = connect(home);
    clients.set(home, known);
    known.catch(() => forget(home, known));
  }
  return known;
}

/** Whether this home has a control plane now, ours or another's. */
export async function isThere(home: string): Promise<boolean> {
  return clients.has(home) || holds.has(home) || (await findControlPlane(home)).state !== "none";
}

/**
 * No control plane answered: search again next time. The hold stays until then, because a slow control plane would end
 * without it.
 */
export function forget(home: string, which?: Promise<Client>): void {
  if (which && clients.get(home) !== which) return;
  clients.delete(home);
}

/** Whether the home's control plane ends without holders, and this process holds it. */
export const keeps = (home: string): boolean => holds.get(home)?.endsWithHolders ?? false;

/** The result of releasing this process's control planes. */
export interface LetGo {
  /** How many continue, because others hold them. */
  shared: number;
  /** Problems at the end, as text; empty if all went well. */
  unwell: string[];
}

/** Like `letGoOfAll`, in a process that then ends. */
export function leave(): Promise<LetGo> {
  leaving = true;
  return letGoOfAll();
}

/**
 * Releases every control plane that this process uses. If that ends one, resolves when it is gone or after two minutes.
 */
async function letGoOfAll(): Promise<LetGo> {
  const homes = new Set([...holds.keys(), ...owned.keys()]);
  const parts = [...homes].map((home) => ({ home, hold: holds.get(home), mine: owned.get(home) }));
  clients.clear();
  holds.clear();
  const ends = await Promise.all(parts.map(({ home, hold, mine }) => letGoOf(home, hold, mine)));
  return {
    shared: ends.filter((end) => end === "shared").length,
    unwell: ends.filter((end) => end !== "shared" && end !== ""),
  };
}

/** `shared`, the empty string for a graceful end, or a message. */
async function letGoOf(home: string, hold: Hold | undefined, mine: Owned | undefined): Promise<string> {
  if (hold && !hold.endsWithHolders) {
    hold.close();
    return "shared";
  }
  mine?.child.ref();
  const endMs = END_MS_MAX + (hold ? await longestGraceMs(home) : 0);
  const released = (await hold?.release(mine !== undefined)) ?? null;
  mine?.child.stdin?.end();
  if (released !== null && !released.ending) {
    mine?.child.unref();
    hold?.close();
    return "shared";
  }
  const said = released === null ? null : await hold?.farewell(endMs);
  const over = mine ? await within(mine.ended, released === null ? endMs : LAST_MS_MAX) : said !== null;
  hold?.close();
  const log = mine?.log ?? homeLayout.controlPlaneLog(home);
  if (said && said.unfinished.length > 0) return `${said.unfinished.join(", ")} may still cost money; see ${log}`;
  return over ? "" : `the control plane is still shutting down by itself; see ${log}`;
}

/** The longest time that a run which ends with the control plane has from TERM to KILL. */
async function longestGraceMs(home: string): Promise<number> {
  try {
    const found = await findControlPlane(home);
    if (found.state !== "running") return 0;
    const { jobs } = await found.client.jobs({ limit: 500 });
    const live = jobs.filter((job) => job.ended_at === null && job.spec["terminate_on_exit"] !== false);
    return Math.max(0, ...live.map((job) => Number(job.spec["stop_grace_seconds"] ?? 0))) * 1_000;
  } catch {
    return 0;
  }
}

async function within(ended: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((done) => (timer = setTimeout(() => done(false), ms)));
  const over = await Promise.race([ended.then(() => true), late]);
  clearTimeout(timer);
  return over;
}

/** A client of a control plane that this process now holds. Waits for an ending control plane, and then replaces it. */
async function connect(home: string): Promise<Client> {
  for (const end = performance.now() + END_MS_MAX; ; await pause(100)) {
    const found = await findControlPlane(home);
    if (found.state === "silent")
      throw SvcError.unreachable(found.file.url, `its process ${found.file.pid} is running but does not answer`);
    const client = found.state === "running" ? found.client : await start(home, performance.now() + WINNER_MS_MAX);
    try {
      const hold = await Hold.take(client.baseUrl, () => readToken(home));
      holds.get(home)?.close();
      holds.set(home, hold);
      process.off("beforeExit", onBeforeExit).on("beforeExit", onBeforeExit);
      return client;
    } catch (e) {
      const passing = e instanceof SvcError && (e.code === "shutting_down" || e.code === "unreachable");
      if (!passing || performance.now() > end) throw e;
    }
  }
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

async function start(home: string, deadline: number): Promise<Client> {
  const cli = findCli();
  const log = openLog(home);
  const from = statSync(log).size;
  const fd = openSync(log, constants.O_APPEND | constants.O_WRONLY);
  const child = spawn(cli, ["serve", "--port", "0", "--until-eof", "--json"], {
    stdio: ["pipe", "pipe", fd],
    env: { ...process.env, SVC_HOME: home },
    detached: true,
  });
  closeSync(fd);
  const ended = new Promise<void>((done) => {
    child.once("exit", () => done());
    child.once("error", () => done());
  });
  child.stdin?.on("error", () => {});
  let first: string;
  try {
    first = await firstLine(child);
  } catch (e) {
    child.stdin?.end();
    throw e;
  }
  const ready = parse(first) as { url?: unknown } | null;
  if (typeof ready?.url !== "string") {
    child.stdin?.end();
    await ended;
    return instead(home, readFileSync(log).subarray(from).toString("utf8"), log, deadline);
  }
  const client = new Client({ baseUrl: ready.url });
  owned.set(home, { child, client, log, ended });
  void ended.then(() => {
    if (owned.get(home)?.child === child) {
      owned.delete(home);
      clients.delete(home);
    }
  });
  letGo(child);
  return client;
}

/** The failure in a command's output: the error among its lines, and the last line. */
export function failureIn(said: string): { error: Partial<ErrorWords> | null; last: string | null } {
  const lines = said.split("\n").filter((l) => l.trim() !== "");
  const errors = lines.map((l) => (parse(l) as { error?: Partial<ErrorWords> } | null)?.error);
  return { error: errors.findLast((e) => e?.code) ?? null, last: lines.at(-1) ?? null };
}

/** Our control plane did not start. If another caller was faster, use that one; if one was just ending, try again. */
async function instead(home: string, said: string, log: string, deadline: number): Promise<Client> {
  const { error, last } = failureIn(said);
  if (error?.code === "home_locked") {
    for (const again = performance.now() + START_AGAIN_MS; performance.now() < deadline; await pause(50)) {
      const found = await findControlPlane(home);
      if (found.state === "running") return found.client;
      if (performance.now() > again) return start(home, deadline);
    }
  }
  if (error?.code) throw new SvcError({ code: error.code, message: String(error.message), hint: String(error.hint) });
  throw startFailed(last ?? `it exited without a message; see ${log}`);
}

/** SVC_BIN, else `bin/svc` next to this package, else `svc` on the PATH. */
export function findCli(env: NodeJS.ProcessEnv = process.env): string {
  if (env["SVC_BIN"]) {
    const named = resolve(env["SVC_BIN"]);
    if (existsSync(named)) return named;
    throw startFailed(`SVC_BIN is set to ${named}, which does not exist`);
  }
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const beside = join(folder, "bin", "svc");
    if (existsSync(beside) && existsSync(join(folder, "package.json"))) return beside;
    if (folder === dirname(folder)) break;
  }
  for (const folder of (env["PATH"] ?? "").split(delimiter))
    if (folder && existsSync(join(folder, "svc"))) return join(folder, "svc");
  throw startFailed("the command `svc` was not found next to the SDK or on the PATH (set SVC_BIN to its path)");
}

const startFailed = (why: string): SvcError =>
  new SvcError({
    code: "start_failed",
    message: `The control plane could not start: ${why.replace(/\.$/, "")}.`,
    hint: "Run `svc doctor`: it lists what is missing on this computer.",
  });

/** Opens the log for its output. In another user's home, the name could be a symlink to a file of ours. */
function openLog(home: string): string {
  const log = homeLayout.controlPlaneLog(home);
  try {
    makeHome(home);
    const why = homeObjection(statSync(home));
    if (why !== null) throw homeUnusable(home, `it ${why}`);
    const fd = openSync(log, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    try {
      fchmodSync(fd, 0o600);
    } finally {
      closeSync(fd);
    }
    return log;
  } catch (e) {
    throw e instanceof SvcError ? e : homeUnusable(home, (e as Error).message, e);
  }
}

const homeUnusable = (home: string, why: string, cause?: unknown): SvcError =>
  new SvcError({
    code: "home_unusable",
    message: `The home ${home} cannot be used: ${why}.`,
    hint: "Nothing was changed. Machines of this home may still cost money. If the home is yours, mend what the message names: remove a file of another user or take it over with `chown`, and close the home to others (`chmod 700`). Otherwise set SVC_HOME to a folder that you own and can write to.",
    cause,
  });

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((done, fail) => {
    let text = "";
    const timer = setTimeout(() => fail(startFailed(`it printed nothing for ${START_MS_MAX / 1000} s`)), START_MS_MAX);
    const end = (line: string): void => {
      clearTimeout(timer);
      done(line);
    };
    child.once("error", (e) => {
      clearTimeout(timer);
      fail(startFailed(e.message));
    });
    child.stdout?.setEncoding("utf8").on("data", (part: string) => {
      if (text.includes("\n")) return;
      text += part;
      if (text.includes("\n")) end(text.slice(0, text.indexOf("\n")));
    });
    child.stdout?.once("close", () => end(text));
  });
}

/** The child and its pipes no longer count as work of this process. */
function letGo(child: ChildProcess): void {
  child.unref();
  // Pipes of a child are sockets, which can be unreferenced; the general stream type does not say so.
  for (const pipe of [child.stdin, child.stdout]) (pipe as unknown as { unref?: () => void } | null)?.unref?.();
}

function onBeforeExit(): void {
  if (holds.size + owned.size > 0) void letGoOfAll();
}

/** Null if the text is not JSON. */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
