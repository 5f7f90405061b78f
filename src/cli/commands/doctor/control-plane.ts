// Checks the needs of this home's control plane: an intact store, a port, and a kernel that reports who connects.

import { readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { findControlPlane } from "../../../../sdk/discover.ts";
import { asSvcError } from "../../../errors/index.ts";
import { homeLayout } from "../../../platform/home-layout.ts";
import type { Io } from "../../io.ts";
import { fail, ok, warn, type Check } from "./check.ts";

export async function store(io: Io): Promise<Check> {
  const file = homeLayout.store(io.home());
  try {
    const { storeOfHome } = await import("../../store.ts");
    const reads = await storeOfHome(io);
    if (!reads) return ok("store", "none yet");
    try {
      reads.jobs({ limit: 1 });
    } finally {
      reads.close();
    }
    const { default: Database } = await import("better-sqlite3");
    const db = new Database(file, { readonly: true, fileMustExist: true });
    try {
      const said = String(db.pragma("quick_check(1)", { simple: true }));
      return said === "ok"
        ? ok("store", "intact")
        : fail(
            "store",
            said,
            `Stop svc; a graceful stop (TERM) ends its runs and releases their machines. Move ${file}, and the files with its name and -wal or -shm, out of the home, then copy the file of ${homeLayout.backups(io.home())} with the latest time in its name (not the last name) to ${file}. Then run \`svc reconcile --dry-run\` before anything else: every other start of svc ends the machines that were rented after the copy.`,
          );
    } finally {
      db.close();
    }
  } catch (e) {
    const { message, hint } = asSvcError(e);
    return fail("store", message, hint);
  }
}

export async function port(home: string): Promise<Check> {
  const found = await findControlPlane(home).catch(() => ({ state: "none" as const }));
  if (found.state === "running") return ok("port", `the control plane of this home is serving ${found.file.url}`);
  if (found.state === "silent")
    return warn(
      "port",
      `the control plane of this home (process ${found.file.pid}) does not answer`,
      "Read its output. If you end it with `kill -9`, `svc serve` resumes its runs; a graceful stop (TERM) ends them and releases their machines.",
    );
  const taken = await new Promise<boolean>((done) => {
    const socket = createConnection({ host: "127.0.0.1", port: 8780, timeout: 1_000 });
    const answer = (is: boolean) => (): void => {
      socket.destroy();
      done(is);
    };
    socket.once("connect", answer(true)).once("error", answer(false)).once("timeout", answer(false));
  });
  return taken
    ? warn("port", "8780 is in use by another program", "Use `svc serve --port N`.")
    : ok("port", "8780 is free");
}

export async function proc(): Promise<Check> {
  try {
    readFileSync("/proc/self/stat");
    readFileSync("/proc/net/tcp");
    return ok("proc", "svc can identify the user of each local connection");
  } catch {
    return warn(
      "proc",
      "there is no /proc",
      "Without it the API requires the token from the home for every request; the CLI and the SDKs send it by themselves.",
    );
  }
}
