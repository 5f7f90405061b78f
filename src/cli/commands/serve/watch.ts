// Notices when the starter of `svc serve` has ended: its end of stdin was closed, or the process is gone.

import { isAlive, pidStart } from "../../../../sdk/discover.ts";

export function watchStdin(gone: () => void): void {
  process.stdin.on("end", gone).on("close", gone).on("error", gone).resume();
}

export function watchParent(pid: number, gone: () => void): void {
  const who = { pid, pid_start: pidStart(pid) };
  const timer = setInterval(() => {
    if (isAlive(who)) return;
    clearInterval(timer);
    gone();
  }, 500);
  timer.unref();
  if (!isAlive(who)) gone();
}
