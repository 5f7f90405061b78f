// One thread of the hashing pool: receives batches of paths, returns their digests in order, and reports its progress.

import { parentPort } from "node:worker_threads";
import { hashFileSync, type HashResult } from "./hash-file.ts";

export type FromWorker = { read: number } | { results: HashResult[] };

const port = parentPort;
if (port) {
  const say = (message: FromWorker): void => port.postMessage(message);
  port.on("message", (paths: string[]) => {
    let untold = 0;
    const results = paths.map((path) =>
      hashFileSync(path, (bytes) => {
        untold += bytes;
        if (untold < 16 * 1024 * 1024) return;
        say({ read: untold });
        untold = 0;
      }),
    );
    say({ read: untold });
    say({ results });
  });
}
