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
      const shown = new Map<string, string>();
      for (const file of listing) {
        let path = redactor.redactText(file.path);
        if (path === file.path) continue;
        while (names.has(path)) path += "~";
        names.add(path);
        real.set(path, file.path);
        shown.set(file.path, path);
      }
      const hidden = (path: string): string => shown.get(path) ?? redactor.redactText(path);
      return listing.map((file): RemoteFile => ({
        ...file,
        path: hidden(file.path),
        ...(file.leadsTo === undefined ? {} : { leadsTo: hidden(file.leadsTo) }),
      }));
    },
    fetchCheckpoint: (file, target, signal) => {
      const leadsTo = file.leadsTo === undefined ? {} : { leadsTo: real.get(file.leadsTo) ?? file.leadsTo };
      return host.fetchCheckpoint({ ...file, path: real.get(file.path) ?? file.path, ...leadsTo }, target, signal);
    },
  };
}
