// Scripts of both SDKs at a home of their own, which print one answer as JSON.

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { openStore, prepareHome, type Sqlite } from "../../src/store/database.ts";
import { CLI, type Workplace } from "../cli/serving.ts";
import { DEADLINE_MS } from "../deadline.ts";

const ROOT = join(import.meta.dirname, "../..");
/** One script makes many calls, each of which starts a command. */
export const WHOLE_MS = 4 * DEADLINE_MS;

/** Makes the home, with what `fill` writes into its store. */
export async function filledHome(at: Workplace, now: number, fill: (db: Sqlite) => void): Promise<void> {
  at.env["SVC_BIN"] = CLI;
  at.env["PYTHONPATH"] = join(ROOT, "python");
  mkdirSync(at.home, { mode: 0o700 });
  prepareHome(at.home);
  const { db } = await openStore(at.home, { newInstallationId: "abcdefgh12345678", now });
  fill(db);
  db.close();
}

function ran(at: Workplace, argv: readonly string[]): unknown {
  const [program = "", ...args] = argv;
  const { stdout, stderr } = spawnSync(program, args, {
    env: at.env,
    cwd: at.project,
    encoding: "utf8",
    timeout: WHOLE_MS,
  });
  try {
    return JSON.parse(stdout);
  } catch {
    throw new Error(`${stdout}\n${stderr}`);
  }
}

/** The `answer` of a script in Python. */
export const inPython = (at: Workplace, body: string): unknown =>
  ran(at, ["python3", "-c", `import asyncio, datetime, json, svc\n${body}\nprint(json.dumps(answer))`]);

/** The `answer` of a script in TypeScript that imports these names; `refused(promise)` is the code and the field of an error. */
export const inTypeScript = (at: Workplace, names: string, body: string): unknown =>
  ran(at, [
    process.execPath,
    "--input-type=module",
    "-e",
    `import { ${names} } from ${JSON.stringify(join(ROOT, "sdk/index.ts"))};\nconst refused = (p) => p.then(() => null, (e) => [e.code, e.errors?.[0]?.field ?? null]);\n${body}\nconsole.log(JSON.stringify(answer));`,
  ]);
