// The demo: trains a small model on real data under a control plane of this home, and shows what happens step by step.
//
// D1. It ends by itself, in under five minutes, and leaves nothing running that it started.
// D2. Exit code 0 only when the run succeeded; 130 after Ctrl-C.
// D3. Everything shown comes from the HTTP API; nothing is invented.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bytes } from "../domain/bytes.ts";
import { dollars } from "../errors/dollars.ts";
import { type Checkpoints, type JobRecord, type Metrics, type Timeline } from "../schemas/job.ts";
import { hasEnded } from "../schemas/names.ts";
import { exampleIn } from "../files/example-project.ts";
import { wantsColor } from "./io.ts";
import { checkoutRoot } from "./root.ts";
import { homeLayout } from "../platform/home-layout.ts";
import { resolveHome } from "../platform/home.ts";

/** How svc is started here, as arguments and as a person would type it. */
export interface Svc {
  argv: readonly [program: string, ...args: string[]];
  words: string;
}

const ROOT = checkoutRoot();
const HOME = resolveHome(process.env);
const RUN_MS_MAX = 5 * 60_000;
const START_MS_MAX = 60_000;
const END_MS_MAX = 60_000;
const LOOK_MS = 150;

const live = process.stdout.isTTY;
const colour = wantsColor(process.env, live);
const bold = (text: string) => (colour ? `\u001b[1m${text}\u001b[0m` : text);
const dim = (text: string) => (colour ? `\u001b[2m${text}\u001b[0m` : text);

/** The problem in one line, and the remedy in another. */
class DemoFailure extends Error {
  readonly hint: string;
  /** The error code of the control plane, if it ended with an error. */
  readonly code: string | null;
  constructor(message: string, hint: string, code: string | null = null) {
    super(message);
    this.hint = hint;
    this.code = code;
  }
}

interface Server {
  url: string;
  /** Set when the demo started it. */
  child: ChildProcess | null;
}

// ── The control plane ────────────────────────────────────────────────────────────────────────────────────────────────

async function connect(svc: Svc): Promise<Server> {
  const running = await findRunning();
  if (running) {
    say(`Using the control plane that already serves ${HOME} at ${running}.`);
    return { url: running, child: null };
  }
  say(`Starting a control plane for ${HOME} …`);
  try {
    return await start(svc, 8780);
  } catch (thrown) {
    if (!(thrown instanceof DemoFailure) || thrown.code !== "port_taken") throw thrown;
    say("Port 8780 is used by another program; using a free one.");
    return await start(svc, 0);
  }
}

async function findRunning(): Promise<string | null> {
  let entry: { url: string; installation_id: string };
  try {
    entry = JSON.parse(readFileSync(homeLayout.controlPlane(HOME), "utf8"));
    if (new URL(entry.url).hostname !== "127.0.0.1") return null;
    const health = await get<{ installation_id: string }>(entry.url, "/v1/health");
    return health.installation_id === entry.installation_id ? entry.url : null;
  } catch {
    // The file is missing or stale, or no process answers: start one.
    return null;
  }
}

/**
 * The pipe on its stdin ties it to the demo: when the demo ends, for any reason, the control plane shuts down
 * gracefully.
 */
async function start(svc: Svc, port: number): Promise<Server> {
  const [program, ...args] = svc.argv;
  const child = spawn(program, [...args, "serve", "--port", String(port), "--until-eof", "--json"], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, SVC_HOME: HOME },
    detached: true,
  });
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => (words = (words + chunk.toString("utf8")).slice(-8_000)));
  child.stdin.on("error", () => {});
  const lines = createInterface({ input: child.stdout });
  const first = await Promise.race([
    once(lines, "line").then(([line]) => String(line)),
    once(child, "close").then(() => ""),
    once(child, "error").then(([error]) => String(error)),
    wait(START_MS_MAX).then(() => "timeout"),
  ]);
  const said = parse(first);
  if (typeof said.url === "string") return { url: said.url, child };
  child.stdin.end();
  const { code, message, hint } = objectIn(parse(words)["error"]);
  if (typeof code === "string" && typeof message === "string") throw new DemoFailure(message, String(hint), code);
  const why = first === "timeout" ? "it printed nothing for a minute" : `${first}\n${words}`.trim();
  throw new DemoFailure(
    `The control plane did not start: ${why}`,
    `Run \`${svc.words} doctor\`: it lists what is missing on this computer.`,
  );
}

async function end(server: Server): Promise<void> {
  const { child } = server;
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.stdin?.end();
  const done = await Promise.race([ended.then(() => true), wait(END_MS_MAX).then(() => false)]);
  if (!done) say(`The control plane (process ${child.pid}) is still shutting down by itself.`);
}

// ── The run ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function example(): { spec: Record<string, unknown> } {
  const found = exampleIn(ROOT);
  if (found) return found;
  throw new DemoFailure(`The example project of the demo is missing in ${ROOT}.`, "Reinstall svc.");
}

async function submit(url: string): Promise<JobRecord> {
  const response = await fetch(`${url}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...example(), label: "digits demo" }),
    signal: AbortSignal.timeout(30_000),
  });
  return (await answer(response)) as JobRecord;
}

/** Follows the run to its end. The socket only signals when to read again; the shown data comes from the API. */
async function follow(svc: Svc, url: string, id: string): Promise<JobRecord> {
  const nudge = watch(url, id);
  const progress = new Progress();
  const deadline = Date.now() + RUN_MS_MAX;
  try {
    while (Date.now() < deadline) {
      const job = await get<JobRecord>(url, `/jobs/${id}`);
      const timeline = await get<Timeline>(url, `/jobs/${id}/timeline`);
      // Shown before the steps: the last epoch belongs above the end of its step.
      progress.metrics(await get<Metrics>(url, `/jobs/${id}/metrics`));
      progress.steps(timeline);
      if (isOver(job)) return job;
      await Promise.race([nudge.next(), wait(1_000)]);
      await wait(LOOK_MS);
    }
  } finally {
    progress.done();
    nudge.close();
  }
  throw new DemoFailure("The run did not finish within five minutes.", `See its log with: ${svc.words} logs ${id}`);
}

function watch(url: string, id: string): { next(): Promise<void>; close(): void } {
  let wake = () => {};
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/events?job_id=${id}`);
  socket.addEventListener("message", () => wake());
  socket.addEventListener("error", () => {}); // without a socket, polling every second continues
  return {
    next: () => new Promise<void>((done) => (wake = done)),
    close: () => socket.close(),
  };
}

/** Prints each change once; on a terminal the line of the metrics is rewritten in place. */
class Progress {
  private readonly seen = new Set<string>();
  private point = -1;
  private open = false;

  steps(timeline: Timeline): void {
    for (const step of timeline.steps) {
      const name = `${step.step}${step.attempt > 1 ? ` (attempt ${step.attempt})` : ""}`;
      if (step.started_at) this.once(`${name} started`, `  ▸ ${name}`);
      if (!step.ended_at) continue;
      const mark = step.status === "succeeded" ? "✓" : "✗";
      const why = step.error ? `  ${step.error.message}` : "";
      this.once(
        `${name} ${step.status}`,
        `  ${mark} ${name.padEnd(12)} ${dim(duration(step.started_at, step.ended_at))}${why}`,
      );
    }
  }

  metrics(metrics: Metrics): void {
    const loss = metrics.series.loss?.at(-1);
    const accuracy = metrics.series.test_accuracy?.at(-1);
    if (!loss || !accuracy || accuracy.step <= this.point) return;
    this.point = accuracy.step;
    const text = `      epoch ${String(accuracy.step).padStart(2)}   loss ${fixed(loss.value, 4)}   test accuracy ${percent(accuracy.value)}`;
    if (live) process.stdout.write(`\r\u001b[2K${text}`);
    else say(text);
    this.open = live;
  }

  done(): void {
    if (this.open) process.stdout.write("\n");
    this.open = false;
  }

  private once(key: string, text: string): void {
    if (this.seen.has(key)) return;
    this.seen.add(key);
    this.done();
    say(text);
  }
}

// ── The result ───────────────────────────────────────────────────────────────────────────────────────────────────────

async function report({ words }: Svc, server: Server, job: JobRecord): Promise<void> {
  const timeline = await get<Timeline>(server.url, `/jobs/${job.id}/timeline`);
  const { files } = await get<Checkpoints>(server.url, `/jobs/${job.id}/checkpoints`);
  const { series } = await get<Metrics>(server.url, `/jobs/${job.id}/metrics?name=test_accuracy`);
  const accuracy = series.test_accuracy?.at(-1);
  say("");
  say(bold("Result"));
  say(`  job          ${job.id} (${job.label})`);
  say(`  status       ${job.status}`);
  say(`  exit code    ${job.exit_code ?? "none"}`);
  say(`  cost         ${dollars(job.cost_usd)}`);
  say(`  accuracy     ${accuracy ? `${percent(accuracy.value)} of the test images` : "none recorded"}`);
  if (job.error) say(`  error        ${job.error.message}\n               ${job.error.hint}`);
  say("");
  say(bold("Timeline"));
  for (const step of timeline.steps) {
    const at = step.started_at?.slice(11, 23) ?? "";
    say(
      `  ${step.step.padEnd(12)} ${at.padEnd(13)} ${duration(step.started_at, step.ended_at).padStart(9)}   ${step.status}`,
    );
  }
  say("");
  say(bold("Checkpoints"));
  for (const file of files) say(`  ${file.path.padEnd(24)} ${bytes(file.size).padStart(8)}`);
  if (files.length === 0) say("  none");
  say("");
  say(bold("Next steps"));
  say(`  log          ${words} logs ${job.id}`);
  say(`  steps        ${words} timeline ${job.id}`);
  say(`  checkpoints  ${join(HOME, "artifacts", job.id, "checkpoints")}`);
  if (server.child) say(`  dashboard    ${words} serve --open`);
  else say(`  dashboard    ${server.url}`);
}

// ── Small things ─────────────────────────────────────────────────────────────────────────────────────────────────────

async function get<T>(url: string, path: string): Promise<T> {
  // The control plane checks its answers against their schemas.
  return (await answer(await fetch(url + path, { signal: AbortSignal.timeout(30_000) }))) as T;
}

async function answer(response: Response): Promise<unknown> {
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  const problem = parse(text);
  throw new DemoFailure(
    typeof problem.detail === "string" ? problem.detail : `Status ${response.status}.`,
    typeof problem.hint === "string" ? problem.hint : "See the log of the server.",
  );
}

const objectIn = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? { ...value } : {};

function parse(text: string): Record<string, unknown> {
  try {
    return objectIn(JSON.parse(text));
  } catch {
    return {};
  }
}

const say = (text: string) => void process.stdout.write(`${text}\n`);
const wait = (ms: number) => new Promise<void>((done) => setTimeout(done, ms).unref());
const isOver = (job: JobRecord) => hasEnded(job.status);
const fixed = (value: number | string, digits: number) => (typeof value === "number" ? value.toFixed(digits) : value);
const percent = (value: number | string) => (typeof value === "number" ? `${(100 * value).toFixed(1)} %` : value);

function duration(from: string | null, to: string | null): string {
  if (!from || !to) return "";
  const ms = Date.parse(to) - Date.parse(from);
  return ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

// ── The whole ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Returns the exit code (D2). */
export async function runDemo(svc: Svc): Promise<number> {
  try {
    return await shown(svc);
  } catch (thrown) {
    process.stderr.write(`demo: ${thrown instanceof Error ? thrown.message : String(thrown)}\n`);
    if (thrown instanceof DemoFailure) process.stderr.write(`${thrown.hint}\n`);
    return 1;
  }
}

async function shown(svc: Svc): Promise<number> {
  say(bold("svc demo: a small network learns to read handwritten digits"));
  const server = await connect(svc);
  const interrupted = new Promise<"interrupted">((done) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => done("interrupted"));
  });
  try {
    say(`Dashboard while it runs: ${bold(server.url)}`);
    const job = await submit(server.url);
    say(`Submitted by POST /jobs: ${bold(job.id)}`);
    const over = await Promise.race([follow(svc, server.url, job.id), interrupted]);
    if (over === "interrupted") {
      say(
        server.child
          ? "\nEnding the control plane and the run …"
          : `\nThe run continues; ${svc.words} kill ${job.id} ends it.`,
      );
      return 130;
    }
    await report(svc, server, over);
    if (over.status === "succeeded") return 0;
    throw new DemoFailure(
      `The run ended as ${over.status}.`,
      `See the end of its log: ${svc.words} logs ${over.id} --tail 50`,
    );
  } finally {
    await end(server);
  }
}
