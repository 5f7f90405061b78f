// Runs a command on a terminal of its own, as a person would, for tests of what depends on one.

import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { DEADLINE_MS } from "../deadline.ts";

/** Waits for a text, types, and prints everything that the command wrote; ends with the command's exit code. */
const PROGRAM = `import os, pty, sys
until, typed, *argv = sys.argv[1:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(argv[0], argv)
seen = b""
while until.encode() not in seen:
    seen += os.read(fd, 4096)
keys = typed.encode()
for at in range(0, len(keys), 100):
    os.write(fd, keys[at:at + 100])
try:
    while True:
        part = os.read(fd, 4096)
        if not part:
            break
        seen += part
except OSError:
    pass
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

/** @param until the command has written this before anything is typed. */
export const onTerminal = (
  argv: readonly string[],
  { until, type, env, cwd }: { until: string; type: string; env: NodeJS.ProcessEnv; cwd?: string },
): SpawnSyncReturns<string> =>
  spawnSync("python3", ["-c", PROGRAM, until, type, ...argv], {
    env,
    encoding: "utf8",
    timeout: DEADLINE_MS,
    ...(cwd === undefined ? {} : { cwd }),
  });
