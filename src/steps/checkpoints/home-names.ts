// Makes the local names of checkpoint files, for the store and for answers: the marker replaces a secret in a name, and
// characters that a terminal obeys or that are not UTF-8 are escaped. Names that would be one name here get a suffix: so no file replaces
// another one, and none of node 0 is among those of node 1. The host still receives the file's original name.

import { safeName } from "../../domain/file-names.ts";
import type { Redactor } from "../../domain/redaction.ts";
import type { RemoteFile, RunHost } from "../../providers/host.ts";
import { whyRefused } from "./names.ts";
import { keptApart, type HomeFolder } from "./kept-apart.ts";

/** The part of a host that serves checkpoint files. */
export type CheckpointHost = Pick<RunHost, "listCheckpoints" | "fetchCheckpoint" | "readPieces" | "hashCheckpoint">;

/** The host with safe names in its listing. A suffix distinguishes names that become equal. */
export function withHomeNames(
  host: CheckpointHost,
  redactor: Redactor,
  home: HomeFolder | null = null,
): CheckpointHost {
  const real = new Map<string, string>();
  const homeName = (path: string): string => safeName(redactor.redactText(path));
  const asThere = (file: RemoteFile): RemoteFile => {
    const leadsTo = file.leadsTo === undefined ? {} : { leadsTo: real.get(file.leadsTo) ?? file.leadsTo };
    return { ...file, path: real.get(file.path) ?? file.path, ...leadsTo };
  };
  return {
    async listCheckpoints(signal, announced) {
      const there = announced?.map((path) => real.get(path) ?? path);
      const listing = await host.listCheckpoints(signal, there);
      const names = new Set(listing.map(({ path }) => path));
      const shown = new Map<string, string>();
      for (const file of listing) {
        let path = homeName(file.path);
        if (path === file.path) continue;
        while (names.has(path)) path += "~";
        names.add(path);
        shown.set(file.path, path);
      }
      const here = ({ path }: RemoteFile): string => shown.get(path) ?? path;
      const plain = home === null ? [] : listing.filter((file) => whyRefused({ ...file, path: here(file) }) === null);
      const apart = home === null ? new Map<string, string>() : await keptApart(plain.map(here), home);
      for (const file of plain) {
        const path = apart.get(here(file));
        if (path === undefined) continue;
        shown.set(file.path, path);
      }
      // At once: another listing or a download may be under way.
      real.clear();
      for (const [there, path] of shown) real.set(path, there);
      return listing.map((file): RemoteFile => {
        const path = shown.get(file.path);
        const leadsTo = file.leadsTo === undefined ? undefined : (shown.get(file.leadsTo) ?? homeName(file.leadsTo));
        return {
          ...file,
          ...(path === undefined ? {} : { path, renamed: true }),
          ...(leadsTo === undefined ? {} : { leadsTo }),
        };
      });
    },
    fetchCheckpoint: (file, target, signal) => host.fetchCheckpoint(asThere(file), target, signal),
    ...(host.readPieces && {
      readPieces: (pieces, signal) =>
        host.readPieces!(
          pieces.map((piece) => ({ ...piece, file: asThere(piece.file) })),
          signal,
        ),
    }),
    ...(host.hashCheckpoint && { hashCheckpoint: (file, signal) => host.hashCheckpoint!(asThere(file), signal) }),
  };
}
