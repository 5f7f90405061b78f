// Starts a server from Python's registry, in a separate environment that is made once for each set of versions.

import { spawn, type ChildProcess } from "node:child_process";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, renameSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");

/** The folder of an environment that holds just these packages, as `name==version`. */
export function environment(packages: readonly string[]): string {
  const name = createHash("sha256").update(packages.join("\n")).digest("hex").slice(0, 16);
  const folder = join(ROOT, ".cache", "services", name);
  if (existsSync(folder)) return folder;
  const making = `${folder}.${process.pid}`;
  rmSync(making, { recursive: true, force: true });
  execFileSync("python3", ["-m", "venv", making], { stdio: ["ignore", "ignore", "inherit"] });
  execFileSync(
    join(making, "bin/python"),
    ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...packages],
    {
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  // The environment is complete only now. Programs in its bin/ name the old path, so they are run as modules.
  renameSync(making, folder);
  return folder;
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export interface PythonServer {
  url: string;
  close(): Promise<void>;
}

/** Starts a module or code of the environment, and waits until it answers any HTTP request. */
export async function start(folder: string, port: number, args: readonly string[], cwd: string): Promise<PythonServer> {
  const child: ChildProcess = spawn(join(folder, "bin/python"), args, { cwd, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr?.on("data", (piece: Buffer) => void (said = (said + piece.toString()).slice(-4_000)));
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = `http://127.0.0.1:${port}`;
  const answers = (): Promise<boolean> =>
    fetch(url).then(
      () => true,
      () => false,
    );
  for (const end = Date.now() + 60_000; !(await answers());) {
    if (child.exitCode !== null || Date.now() > end) throw new Error(`${args.join(" ")} does not answer: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return {
    url,
    close: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}
