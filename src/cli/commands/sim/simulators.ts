// Loads the simulated providers from the program's folder: `svc sim` cannot import them, as they belong to the tests.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { findControlPlane } from "../../../../sdk/discover.ts";
import { SvcError } from "../../../errors/index.ts";
import { checkoutRoot } from "../../root.ts";

interface ServedSims {
  kind: string;
  env: Record<string, string>;
  urls: Record<string, string>;
  gpus: Record<string, string>;
  cost(): number;
  close(options: { keepsHome: boolean }): Promise<void>;
}

/** The functions of test/sim/serve.ts that this command uses. */
interface SimModule {
  objectionTo(words: { providers: readonly string[]; faults: readonly string[] }): string | null;
  missingPrograms(): string[];
  serveSims(options: {
    providers: readonly string[];
    port: number;
    faults: readonly string[];
    seed?: number;
    say(line: string): void;
  }): Promise<ServedSims>;
}

/**
 * Ends the machines and deletes the home, unless a control plane uses it: it would lose its store and its locks. The lock of the home
 * also keeps away one that starts meanwhile.
 */
export async function closeAround(served: ServedSims, say: (line: string) => void): Promise<void> {
  const home = served.env["SVC_HOME"] ?? "";
  const { HomeLock } = await import("../../../store/home-lock.ts");
  let release: (() => void) | null = null;
  try {
    const lock = HomeLock.take(home);
    release = () => lock.release();
  } catch (error) {
    if (error instanceof SvcError && error.code === "home_locked") {
      say(await keptWords(home, error.message));
      return await served.close({ keepsHome: true });
    }
    // Whatever else is wrong with the folder, it goes.
  }
  try {
    await served.close({ keepsHome: false });
  } finally {
    release?.();
  }
}

async function keptWords(home: string, said: string): Promise<string> {
  const found = await findControlPlane(home);
  const next = `then delete ${dirname(home)}.`;
  return found.state === "none"
    ? `${said} svc therefore keeps the home: wait until that process has ended, ${next}`
    : `A control plane still uses the home, so svc keeps it: end process ${found.file.pid} (Ctrl-C or \`kill ${found.file.pid}\`), ${next}`;
}

export async function load(): Promise<SimModule> {
  const root = checkoutRoot();
  const path = [join(root, "test", "sim", "serve.ts"), join(root, "dist", "sim", "serve.mjs")].find((each) =>
    existsSync(each),
  );
  if (path === undefined)
    throw new SvcError("command_unavailable", {
      what: "The simulated providers are not part of this installation.",
      instead: "Reinstall svc: files of its package are missing.",
    });
  return (await import(pathToFileURL(path).href)) as SimModule;
}

/** @throws `port_taken` if the port is in use, and otherwise the original error */
export async function asPortTaken(error: unknown): Promise<never> {
  const { code, address, port } = error as { code?: unknown; address?: unknown; port?: unknown };
  if (code !== "EADDRINUSE" || typeof port !== "number") throw error;
  const { portTaken } = await import("../../../api/port-holder.ts");
  throw await portTaken(typeof address === "string" ? address : "127.0.0.1", port, error);
}
