// Runs commands that change something: through the running control plane of this home, or, without one, in this
// process.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findControlPlane, type Found } from "../../sdk/discover.ts";
import type { Client } from "../../sdk/client.ts";
import type { OpenControlPlane, Purpose } from "../app/app.ts";
import { keepFilesPrivate } from "../platform/own-umask.ts";
import { SvcError } from "../errors/index.ts";
import type { Io } from "./io.ts";
import { safeField } from "../domain/terminal-text.ts";
import { unusedHome } from "./store.ts";

/**
 * The client of the running control plane, or null. Throws `unreachable` if the control plane is alive but does not
 * answer.
 */
export async function runningClient(io: Io): Promise<Client | null> {
  const found: Found = await findControlPlane(io.home());
  if (found.state === "silent")
    throw new SvcError("unreachable", {
      url: found.file.url,
      why: `its process ${found.file.pid} is running but does not answer`,
      pid: found.file.pid,
    });
  return found.state === "running" ? found.client : null;
}

/**
 * Opens the engine in this process while `use` runs, for that purpose only. With `onlyReads`, a home of SVC_HOME that does not exist is
 * named and not made: a temporary one takes its place.
 */
export async function withOwnControlPlane<T>(
  io: Io,
  purpose: Purpose,
  use: (cp: OpenControlPlane) => Promise<T>,
  { onlyReads = false, ...options }: { newStore?: boolean; onlyReads?: boolean } = {},
): Promise<T> {
  keepFilesPrivate();
  const words = onlyReads && !existsSync(io.home()) ? unusedHome(io) : null;
  if (words !== null) {
    io.err(words);
    const dir = mkdtempSync(join(tmpdir(), "svc-none-"));
    try {
      return await openedFor(dir, io, purpose, use, options);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  }
  return openedFor(io.home(), io, purpose, use, options);
}

async function openedFor<T>(
  home: string,
  io: Io,
  purpose: Purpose,
  use: (cp: OpenControlPlane) => Promise<T>,
  options: { newStore?: boolean },
): Promise<T> {
  const { openControlPlane } = await import("../app/app.ts");
  const log = (line: string): void => io.err(safeField(line));
  const cp = await openControlPlane({ home, purpose, env: io.env, log, ...options });
  try {
    if (options.newStore) tellUnasked(cp, log);
    return await use(cp);
  } finally {
    await cp.close();
  }
}

/** A new store does not know where the home has rented machines. Without a key, a provider is not even asked. */
function tellUnasked(cp: OpenControlPlane, log: (line: string) => void): void {
  const unasked = cp.providers().filter(({ connected, capabilities }) => !connected && capabilities.owns_machine);
  const names = unasked.map(({ name }) => name).join(", ");
  if (names === "") return;
  log(
    `svc has no key for ${names}: machines that this home has rented there may still cost money. Connect these providers, then run \`svc reconcile\`.`,
  );
}
