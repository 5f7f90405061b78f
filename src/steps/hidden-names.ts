// Checkpoints whose names hold a secret: at home, in the store and in answers they bear the marker in its place.

import type { Redactor } from "../domain/redaction.ts";
import type { RemoteFile, RunHost } from "../providers/host.ts";

/** What of a host has to do with checkpoints. */
export type CheckpointHost = Pick<RunHost, "listCheckpoints" | "fetchCheckpoint">;

/** The host with secrets taken out of the names that it lists. Names that become the same are told apart by a tail. */
export function withHiddenNames(host: CheckpointHost, redactor: Redactor): CheckpointHost {
  if (redactor.empty) return host;
  const real = new Map<string, string>();
  return {
    async listCheckpoints(signal) {
      const listing = await host.listCheckpoints(signal);
      real.clear();
      const names = new Set(listing.map(({ path }) => path));
      return listing.map((file): RemoteFile => {
        let path = redactor.redactText(file.path);
        if (path === file.path) return file;
        while (names.has(path)) path += "~";
        names.add(path);
        real.set(path, file.path);
        return { ...file, path };
      });
    },
    fetchCheckpoint: (file, target, signal) =>
      host.fetchCheckpoint({ ...file, path: real.get(file.path) ?? file.path }, target, signal),
  };
}
