// Decides whether every node's share of a checkpoint is on this computer, on a run of several nodes. Resuming and the rules for keeping
// checkpoints call it: a machine may be lost before its share was downloaded, and the rest of that checkpoint is useless.
//
// SH1. A share is complete here if the node kept it for this very version of node 0 (sets.ts), or if the script has ended on node
//      0 and on that node, and svc has downloaded all files that both machines listed under the name.
// SH2. A node without files under the name has no share of it. Exception: it had a share of another checkpoint of
//      the same naming scheme, or has downloaded files under the name; then its share is missing.
// SH3. A node that never reported may have a share if svc has downloaded files under the name or a share of the same
//      scheme from it, or if the files of node 0 are named by rank, unless it is known to have none in this scheme.

import { lstat } from "node:fs/promises";
import { join } from "node:path";
import {
  allKept,
  finalOf,
  folderOfNode,
  givenAtTheEnd,
  rootOf,
  versionsOf,
  type Final,
  type Kept,
  type Version,
} from "./sets.ts";

type Member = { root: string; path: string; size: number; mtime_ms: number; node: number };

/** The downloaded files of one node. */
interface Evidence {
  folder: string;
  kept: ReadonlyMap<string, Kept>;
  final: Final | null;
}

const RANK =
  /(?:^|[/_.-])(?:rank|ranks|mp_rank|rng_state|random_states|shard|process|proc|node)[_-]?[0-9]+|(?:^|\/)__[0-9]+_[0-9]+\.distcp$|pp_rank_[0-9]+/;

/** Names that differ only in their numbers belong to one scheme. */
const schemeOf = (name: string): string => name.replaceAll(/[0-9]+/g, "#");
const isBelow = (path: string, name: string): boolean => path === name || path.startsWith(`${name}/`);

export class Shares {
  readonly #nodes: readonly Evidence[];
  readonly #homeFiles: readonly { path: string }[];

  private constructor(nodes: readonly Evidence[], homeFiles: readonly { path: string }[]) {
    this.#nodes = nodes;
    this.#homeFiles = homeFiles;
  }

  /** @param homeFiles all downloaded files, those of other nodes below `node1`, `node2`, ... */
  static async read(checkpoints: string, nodes: number, homeFiles: readonly { path: string }[]): Promise<Shares> {
    const evidence: Evidence[] = [];
    for (let node = 0; node < nodes; node++) {
      const folder = folderOfNode(checkpoints, node);
      evidence.push({ folder, kept: await allKept(folder), final: await finalOf(folder) });
    }
    return new Shares(evidence, homeFiles);
  }

  /** The files of the other nodes that belong to this version of node 0's set; null if a share is missing. */
  async of(name: string, version: Version): Promise<Member[] | null> {
    const found: Member[] = [];
    for (let node = 1; node < this.#nodes.length; node++) {
      const share = await this.#shareOf(node, name, version);
      if (share === null) return null;
      found.push(...share);
    }
    return found;
  }

  async #shareOf(node: number, name: string, version: Version): Promise<Member[] | null> {
    const { folder, kept } = this.#nodes[node]!;
    const own = kept.get(name);
    const match = own && versionsOf(own).find(({ of }) => of === version.folder);
    const share = match?.files.map((file) => ({ root: rootOf(folder, match), ...file, node }));
    const whole = share ?? (await this.#atTheEnd(node, name, version));
    if (whole === "missing") return null;
    if (whole !== null && whole.length > 0) return whole;
    const scheme = [...kept.values()].filter((set) => schemeOf(set.name) === schemeOf(name)).flatMap(versionsOf);
    // SH2
    if (this.#homeFiles.some(({ path }) => isBelow(path, `node${node}/${name}`))) return null;
    if (scheme.some(({ files }) => files.length > 0)) return null;
    if (whole !== null || scheme.length > 0) return [];
    // SH3
    return version.files.some(({ path }) => RANK.test(path.slice(name.length))) ? null : [];
  }

  /** SH1. The share as the machine had it when the script had ended; null where that is unknown. */
  async #atTheEnd(node: number, name: string, version: Version): Promise<Member[] | "missing" | null> {
    const [first, other] = [this.#nodes[0]!, this.#nodes[node]!];
    if (first.final === null || first.final.placement !== version.placement) return null;
    if (other.final === null || other.final.placement !== version.placement) return null;
    const then = first.final.files.filter(({ path }) => isBelow(path, name));
    const isSame = ({ path, size, mtime_ms }: Version["files"][number]): boolean =>
      then.some((file) => file.path === path && file.size === size && file.mtime_ms === mtime_ms);
    if (then.length !== version.files.length || !version.files.every(isSame)) return null;
    const members: Member[] = [];
    for (const { path, size, mtime_ms, is_home, is_given = false } of other.final.files) {
      if (!isBelow(path, name)) continue;
      const root = is_given ? givenAtTheEnd(other.folder, other.final.placement) : other.folder;
      const stats = await lstat(join(root, path)).catch(() => null);
      if (!is_home || stats?.size !== size) return "missing";
      // Nothing replaces the copy of a given file.
      if (!is_given && Math.abs(stats.mtimeMs - mtime_ms) >= 1) return "missing";
      members.push({ root, path, size, mtime_ms, node });
    }
    return members;
  }
}
