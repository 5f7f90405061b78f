// `svc serve`: the control plane with its API and dashboard, and its graceful shutdown.
//
// S1. The first INT, TERM, HUP, end of stdin or loss of the parent ends runs and releases machines; the second signal
//     ends the process and prints the unfinished runs and machines.
// S2. Started for its callers (--until-eof), it outlives its starter while others hold it (src/api/holds.ts).
// S3. `control-plane.json` exists from when the API answers until it ends; only its writer removes it.

import { runsHere } from "../../providers/descriptors.ts";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { keepFilesPrivate } from "../../platform/own-umask.ts";
import { asSvcError, hourly } from "../../errors/index.ts";
import { isAlive, pidStart, type ControlPlaneFile } from "../../../sdk/discover.ts";
import type { OpenControlPlane } from "../../app/app.ts";
import { Holds } from "../../api/holds.ts";
import { canTellPeers } from "../../api/peer.ts";
import type { JobRecord } from "../../schemas/job.ts";
import { oneOf, usage, value, whole } from "../argv.ts";
import type { Command } from "../command.ts";
import type { Io } from "../io.ts";
import { checkoutRoot, version } from "../root.ts";
import type { LogFormat, LogLevel, ServeLog } from "../serve-log.ts";
import { ACTIVE_STATUSES } from "../../schemas/names.ts";
import { toJson } from "../../domain/terminal-text.ts";
import { replaceFile } from "../../platform/replace-file.ts";
import { withoutSecrets } from "../../domain/secret-names.ts";
import { homeLayout } from "../../platform/home-layout.ts";

export interface ServeOptions {
  host: string;
  port: number;
  open: boolean;
  untilEof: boolean;
  parent: number | undefined;
  json: boolean;
  logFormat: LogFormat;
  logLevel: LogLevel;
}

type Ending = "SIGINT" | "SIGTERM" | "SIGHUP" | "eof" | "parent";
const LOG_FORMATS: readonly LogFormat[] = ["text", "json"];
const LOG_LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];
const END_MS_MAX = 120_000;
/** While checkpoints and logs are being downloaded. */
const COLLECT_MS_MAX = 11 * 60_000;

export const serve: Command = {
  name: "serve",
  summary: "Start the control plane, with its API and dashboard",
  options: [
    {
      flags: "--host <address>",
      what: "Address to listen on (default 127.0.0.1); any address except loopback requires a token",
    },
    { flags: "--port <n>", what: "Port (default 8780); 0 picks a free one" },
    { flags: "--open", what: "Open the dashboard in a browser" },
    { flags: "--until-eof", what: "Shut down gracefully at EOF on stdin, once no client is attached" },
    { flags: "--log-format <format>", what: "Log to stderr as text (default) or as json, one object per line" },
    { flags: "--log-level <level>", what: "Minimum log level: debug, info (default), warn or error" },
    { flags: "--with-parent <pid>", what: "Shut down gracefully when that process ends" },
  ],
  exits: [["130", "ended by Ctrl-C"]],
  examples: ["svc serve", "svc serve --open", "svc serve --port 0 --json"],
  async run(input, io) {
    const host = value(input, "host") ?? "127.0.0.1";
    if (!/^[0-9a-zA-Z.:-]{1,253}$/.test(host))
      throw usage(`--host cannot be \`${host}\`.`, "Use an address, for example 127.0.0.1.");
    return serveUntilEnd(
      {
        host: host === "localhost" ? "127.0.0.1" : host,
        port: whole(input, "port", { min: 0, max: 65_535 }) ?? 8780,
        open: input.flags.has("open"),
        untilEof: input.flags.has("until-eof"),
        parent: whole(input, "with-parent", { min: 1, max: 4_194_304 }),
        json: input.json,
        logFormat: oneOf(input, "log-format", LOG_FORMATS) ?? "text",
        logLevel: oneOf(input, "log-level", LOG_LEVELS) ?? "info",
      },
      io,
    );
  },
};

async function serveUntilEnd(options: ServeOptions, io: Io): Promise<number> {
  keepFilesPrivate();
  const ending = Promise.withResolvers<Ending>();
  let cp: OpenControlPlane | null = null;
  let asked = false;
  io.takeSignals((signal) => {
    if (asked) {
      io.err(`Ending now. ${leftOver(cp)}`);
      process.exit(signal === "SIGINT" ? 130 : 1);
    }
    asked = true;
    ending.resolve(signal);
  });
  const holds = new Holds(options.untilEof ? () => ending.resolve("eof") : null);
  if (options.untilEof) watchStdin(() => holds.starterGone());
  if (options.parent !== undefined) watchParent(options.parent, () => ending.resolve("parent"));

  const [{ openControlPlane }, { startServer }, { serveLog }] = await Promise.all([
    import("../../app/app.ts"),
    import("../../api/server.ts"),
    import("../serve-log.ts"),
  ]);
  const log = serveLog(io, options.logFormat, options.logLevel, version());
  // An unhandled rejection is a defect, but ending the process would leave machines unattended.
  process.on("unhandledRejection", (reason) => log.error(`${asSvcError(reason).message} The control plane continues.`));
  cp = await openControlPlane({ home: io.home(), env: io.env, log: log.info });
  const root = checkoutRoot();
  const loopback = /^(127\.|::1$|localhost$)/.test(options.host);
  let server: Awaited<ReturnType<typeof startServer>>;
  try {
    server = await startServer(cp, {
      host: options.host,
      port: options.port,
      projectDir: io.cwd,
      dashboardDir: join(root, "dashboard", "dist"),
      docs: { source: join(root, "docs"), site: join(root, "dist", "site") },
      version: version(),
      log: log.info,
      ...(log.requests ? { logger: log.requests } : {}),
      holds,
      ...(loopback && canTellPeers() ? {} : { token: tokenOf(cp.home) }),
    });
  } catch (e) {
    // Nothing was accepted yet; the next start resumes earlier runs.
    await cp.close();
    throw e;
  }
  const url = options.host === "0.0.0.0" || options.host === "::" ? `http://127.0.0.1:${server.port}` : server.url;
  const path = homeLayout.controlPlane(cp.home);
  const file: ControlPlaneFile = {
    url,
    pid: process.pid,
    pid_start: pidStart(process.pid),
    started_at: cp.startedAt,
    installation_id: cp.installationId,
  };
  replaceFile(path, `${toJson(file)}\n`);
  await io.out(options.json ? `${toJson({ url, pid: process.pid })}\n` : `svc serves ${url}\n`);
  cp.announce(url);
  if (io.tty && !options.json) log.info("Ctrl-C ends it and its runs, except runs started with terminate_on_exit off.");
  const { resumed, parked } = cp.recovered;
  if (resumed.length > 0) log.info(`Resuming ${count(resumed.length)} of an earlier control plane: ${some(resumed)}`);
  if (parked.length > 0)
    log.warn(
      `Parked, because svc cannot continue from their stored state: ${some(parked)}. A machine may still cost money; \`svc kill\` releases it.`,
    );
  if (server.openUrl !== `${server.url}/`) tellOfToken(homeLayout.token(cp.home), server.openUrl, io, log);
  else if (options.open) openBrowser(url, io, log);

  const why = await ending.promise;
  holds.end();
  const live = activeIds(cp, (job) => job.spec["terminate_on_exit"] !== false);
  log.info(`${because(why)}: ending${live.length > 0 ? ` ${whatEnds(cp, live)}` : "."}`);
  const { unfinished } = await cp.shutdown(END_MS_MAX, COLLECT_MS_MAX);
  if (unfinished.length > 0) log.warn(`Not ended: ${unfinished.join(", ")}. ${leftOver(cp)}`);
  const kept = activeIds(cp).filter((id) => !unfinished.includes(id));
  if (kept.length > 0) log.warn(`Still running, because terminate_on_exit is off: ${some(kept)}. They may cost money.`);
  removeOwn(path);
  holds.farewell({ unfinished, kept });
  await server.close();
  await cp.close();
  log.info(unfinished.length + kept.length > 0 ? "Ended." : "Ended; this control plane left nothing running.");
  return unfinished.length > 0 ? 1 : why === "SIGINT" ? 130 : 0;
}

const some = (ids: string[]): string => `${ids.slice(0, 10).join(", ")}${ids.length > 10 ? ", …" : ""}`;
const count = (n: number): string => `${n} ${n === 1 ? "run" : "runs"}`;

function because(why: Ending): string {
  if (why === "eof") return "The last client has disconnected";
  if (why === "parent") return "The parent process has ended";
  return why === "SIGINT" ? "Interrupted" : `Got ${why}`;
}

function activeIds(cp: OpenControlPlane, which: (job: JobRecord) => boolean = () => true): string[] {
  const live = ACTIVE_STATUSES.flatMap((status) => cp.reads.jobs({ status: [status], limit: 500 }).jobs);
  return [...new Set(live.filter(which).map((job) => job.id))];
}

function whatEnds(cp: OpenControlPlane, ids: string[]): string {
  const rented = cp.reads
    .machines()
    .filter((m) => m.state !== "released" && !runsHere(m.provider) && ids.includes(m.job_id ?? ""));
  const machines =
    rented.length === 0 ? "" : ` and releasing ${rented.length} ${rented.length === 1 ? "machine" : "machines"}`;
  const graceSeconds = Math.max(0, ...ids.map((id) => Number(cp.reads.job(id)?.spec["stop_grace_seconds"] ?? 0)));
  const slowly = graceSeconds > 60 ? ` or a script uses its stop_grace_seconds (${graceSeconds})` : "";
  return `${count(ids.length)} (${some(ids)})${machines}; at most ${END_MS_MAX / 60_000} min, longer only while logs or checkpoints are downloading${slowly}. A second signal ends svc immediately; \`svc reconcile\` then finishes the rest.`;
}

/** Describes what may still run or cost money. */
function leftOver(cp: OpenControlPlane | null): string {
  if (!cp) return "Nothing was started.";
  try {
    const machines = cp.reads.machines().filter((m) => m.state !== "released");
    const ids = activeIds(cp);
    if (machines.length === 0 && ids.length === 0) return "Nothing is left running.";
    const names = machines.map(
      (m) => `${m.name} at ${m.provider}${m.price_per_hour_usd ? ` (${hourly(m.price_per_hour_usd)})` : ""}`,
    );
    return `Unfinished: runs ${ids.join(", ") || "none"}; machines ${names.join(", ") || "none"}. \`svc reconcile\` finishes them.`;
  } catch {
    return "The store could not be read, so runs or machines may be left; run `svc reconcile`.";
  }
}

function watchStdin(gone: () => void): void {
  process.stdin.on("end", gone).on("close", gone).on("error", gone).resume();
}

function watchParent(pid: number, gone: () => void): void {
  const who = { pid, pid_start: pidStart(pid) };
  const timer = setInterval(() => {
    if (isAlive(who)) return;
    clearInterval(timer);
    gone();
  }, 500);
  timer.unref();
  if (!isAlive(who)) gone();
}

/** The bearer token of this home, created when it is first needed. */
function tokenOf(home: string): string {
  const path = homeLayout.token(home);
  try {
    const token = readFileSync(path, "utf8").trim();
    if (token.length >= 32) return token;
  } catch {
    // Not made yet.
  }
  const token = randomBytes(32).toString("base64url");
  replaceFile(path, `${token}\n`);
  return token;
}

/**
 * The link opens everything: it is only for the person at this terminal, and never on a command line, where every user
 * would see it.
 */
function tellOfToken(file: string, link: string, io: Io, log: ServeLog): void {
  log.info(`Clients need the token in ${file}.`);
  if (io.tty) io.err(`Open this link in a browser; it works once: ${link}`);
}

function removeOwn(path: string): void {
  try {
    if (JSON.parse(readFileSync(path, "utf8")).pid === process.pid) unlinkSync(path);
  } catch {
    // Gone already.
  }
}

function openBrowser(url: string, io: Io, log: ServeLog): void {
  const child = spawn(process.platform === "darwin" ? "open" : "xdg-open", [url], {
    stdio: "ignore",
    detached: true,
    env: withoutSecrets(io.env),
  });
  child.on("error", () => log.warn(`Could not open a browser. Open ${url} yourself.`));
  child.unref();
}
