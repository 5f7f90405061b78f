// One control plane per home: the one that runs, or one that this process starts and that lives as long as it does.
//
// P1. The child holds the reading end of its stdin, we the writing end. However this process ends, the child reads the end
//     of the file, and then ends as an interrupted control plane does: machines are released.
// P2. It has a session of its own, so a Ctrl-C in the terminal reaches this process alone, which ends it in order.
// P3. It never keeps this process alive; when the script has nothing left to do, it is ended and waited for.

import { spawn, type ChildProcess } from "node:child_process";
import { appendFileSync, chmodSync, closeSync, constants, existsSync, openSync, readFileSync, statSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { makeHome } from "../src/domain/home.ts";
import { Client } from "./client.ts";
import { findControlPlane } from "./discover.ts";
import { SvcError } from "./errors.ts";

const START_MS_MAX = 60_000;
const WINNER_MS_MAX = 20_000;
const END_MS_MAX = 130_000;

export interface Owned {
  child: ChildProcess;
  client: Client;
  log: string;
  ended: Promise<void>;
}

const clients = new Map<string, Promise<Client>>();
const owned = new Map<string, Owned>();

/** The client of this home's control plane; where none runs, one is started. */
export function clientOf(home: string): Promise<Client> {
  let known = clients.get(home);
  if (!known) {
    known = connect(home);
    clients.set(home, known);
    known.catch(() => forget(home, known));
  }
  return known;
}

/** Nobody answers there any more: look again next time. */
export function forget(home: string, which?: Promise<Client>): void {
  if (!which || clients.get(home) === which) clients.delete(home);
}

/** The control plane that this process started for the home, while it runs. */
export const ownedBy = (home: string): Owned | null => owned.get(home) ?? null;

/**
 * Ends, in order, every control plane that this process started. Resolves when they are gone or after two minutes, with the
 * logs of those that did not end well.
 */
export async function endOwned(): Promise<string[]> {
  const all = [...owned.values()];
  clients.clear();
  for (const o of all) {
    o.child.ref();
    o.child.stdin?.end();
  }
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((done) => (timer = setTimeout(done, END_MS_MAX)));
  await Promise.race([Promise.all(all.map((o) => o.ended)), late]);
  clearTimeout(timer);
  return all.filter((o) => o.child.exitCode !== 0).map((o) => o.log);
}

async function connect(home: string): Promise<Client> {
  const found = await findControlPlane(home);
  if (found.state === "running") return found.client;
  if (found.state === "silent")
    throw SvcError.unreachable(found.file.url, `its process ${found.file.pid} lives but does not answer`);
  return start(home);
}

async function start(home: string): Promise<Client> {
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
    return instead(home, readFileSync(log).subarray(from).toString("utf8"), log);
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
  process.off("beforeExit", onBeforeExit).on("beforeExit", onBeforeExit);
  return client;
}

/** Ours did not come up. Where another caller was faster, that one's control plane serves us as well. */
async function instead(home: string, said: string, log: string): Promise<Client> {
  const lines = said.split("\n").filter((l) => l.trim() !== "");
  const error = lines
    .map((l) => (parse(l) as { error?: { code?: string; message?: string; hint?: string } } | null)?.error)
    .findLast((e) => e?.code);
  if (error?.code === "home_locked") {
    for (const end = performance.now() + WINNER_MS_MAX; performance.now() < end;) {
      const found = await findControlPlane(home);
      if (found.state === "running") return found.client;
      await new Promise((r) => setTimeout(r, 50));
    }
  }
  if (error?.code) throw new SvcError({ code: error.code, message: String(error.message), hint: String(error.hint) });
  throw startFailed(lines.at(-1) ?? `it ended without a word; see ${log}`);
}

/** SVC_BIN, else `bin/svc` beside this package, else `svc` on the PATH. */
export function findCli(env: NodeJS.ProcessEnv = process.env): string {
  if (env["SVC_BIN"]) {
    const named = resolve(env["SVC_BIN"]);
    if (existsSync(named)) return named;
    throw startFailed(`SVC_BIN names ${named}, which is not there`);
  }
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const beside = join(folder, "bin", "svc");
    if (existsSync(beside) && existsSync(join(folder, "package.json"))) return beside;
    if (folder === dirname(folder)) break;
  }
  for (const folder of (env["PATH"] ?? "").split(delimiter))
    if (folder && existsSync(join(folder, "svc"))) return join(folder, "svc");
  throw startFailed("the command `svc` is neither beside the SDK nor on the PATH (SVC_BIN may name it)");
}

const startFailed = (why: string): SvcError =>
  new SvcError({
    code: "start_failed",
    message: `A control plane could not be started: ${why.replace(/\.$/, "")}.`,
    hint: "Run `svc doctor`, which says what this computer lacks.",
  });

function openLog(home: string): string {
  const log = join(home, "control-plane.log");
  try {
    makeHome(home);
    appendFileSync(log, "", { mode: 0o600 });
    chmodSync(log, 0o600);
    return log;
  } catch (e) {
    throw new SvcError({
      code: "home_unusable",
      message: `The home ${home} cannot be used: ${(e as Error).message}.`,
      hint: "Set SVC_HOME to a folder that you own and may write. Nothing was changed.",
      cause: e,
    });
  }
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((done, fail) => {
    let text = "";
    const timer = setTimeout(() => fail(startFailed(`it said nothing for ${START_MS_MAX / 1000} s`)), START_MS_MAX);
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
  if (owned.size > 0) void endOwned();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
