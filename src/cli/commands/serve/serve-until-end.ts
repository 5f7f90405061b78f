// The control plane of `svc serve`, from its start to its graceful shutdown.
//
// S1. The first INT, TERM, HUP, end of stdin or loss of the parent ends runs and releases machines; the second signal
//     ends the process and prints the unfinished runs and machines.
// S2. Started for its callers (--until-eof), it outlives its starter while others hold it (src/api/holds.ts).
// S3. `control-plane.json` exists from when the API answers until it ends, or, on a full disk, from when there is room for
//     it; only its writer removes it.

import { readFileSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { keepFilesPrivate } from "../../../platform/own-umask.ts";
import { asSvcError, messageOf } from "../../../errors/index.ts";
import { pidStart, type ControlPlaneFile } from "../../../../sdk/discover.ts";
import type { OpenControlPlane } from "../../../app/app.ts";
import { Holds } from "../../../api/holds.ts";
import { canTellPeers } from "../../../api/peer.ts";
import { openBrowser } from "../../browser.ts";
import type { Io } from "../../io.ts";
import { checkoutRoot, version } from "../../root.ts";
import type { LogFormat, LogLevel } from "../../serve-log.ts";
import { toJson } from "../../../domain/terminal-text.ts";
import { replaceOutdated } from "../../../platform/replace-file.ts";
import { homeLayout } from "../../../platform/home-layout.ts";
import { tellOfToken, tokenOf } from "./access.ts";
import { END_MS_MAX, type Ending, activeIds, because, count, leftOver, some, whatEnds, whatStays } from "./endings.ts";
import { watchParent, watchStdin } from "./watch.ts";

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

/** While checkpoints and logs are being downloaded. */
const COLLECT_MS_MAX = 11 * 60_000;
/** Between two tries to write `control-plane.json` on a full disk. */
const REWRITE_MS = 1_000;

export async function serveUntilEnd(options: ServeOptions, io: Io): Promise<number> {
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
    import("../../../app/app.ts"),
    import("../../../api/server.ts"),
    import("../../serve-log.ts"),
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
  const isWritten = (): boolean => replaceOutdated(path, `${toJson(file)}\n`);
  let unwritten: NodeJS.Timeout | undefined;
  if (!isWritten()) {
    log.warn(`The disk of the home is full: until it has room, only ${url} leads here, and no command of svc.`);
    let isTold = false;
    unwritten = setInterval(() => {
      try {
        if (isWritten()) clearInterval(unwritten);
      } catch (e) {
        // Runs and machines need this process, not the file.
        if (!isTold) log.warn(`${path} cannot be written (${messageOf(e)}). svc tries again.`);
        isTold = true;
      }
    }, REWRITE_MS);
  }
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
  else if (options.open) openBrowser(url, io.env, () => log.warn(`Could not open a browser. Open ${url} yourself.`));

  const why = await ending.promise;
  holds.end();
  const live = activeIds(cp, (job) => job.spec["terminate_on_exit"] !== false);
  log.info(`${because(why)}: ending${live.length > 0 ? ` ${whatEnds(cp, live)}` : "."}`);
  const { unfinished } = await cp.shutdown(END_MS_MAX, COLLECT_MS_MAX);
  if (unfinished.length > 0) log.warn(`Not ended: ${unfinished.join(", ")}. ${leftOver(cp)}`);
  const kept = activeIds(cp).filter((id) => !unfinished.includes(id));
  if (kept.length > 0) log.warn(whatStays(cp, kept));
  clearInterval(unwritten);
  removeOwn(path);
  holds.farewell({ unfinished, kept });
  await server.close();
  await cp.close();
  log.info(unfinished.length + kept.length > 0 ? "Ended." : "Ended; this control plane left nothing running.");
  return unfinished.length > 0 ? 1 : why === "SIGINT" ? 130 : 0;
}

function removeOwn(path: string): void {
  try {
    if (JSON.parse(readFileSync(path, "utf8")).pid === process.pid) unlinkSync(path);
  } catch {
    // Gone already.
  }
}
