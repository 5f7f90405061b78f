// What a push of a tree is told, whichever way it goes.

import type { SshEndpoint } from "../domain/endpoint.ts";
import type { TreePush } from "../providers/host.ts";
import type { SshConnection } from "./connection.ts";
import type { HostKeyPins } from "./host-keys.ts";
import type { SshKey } from "./keys.ts";

export interface TreeOptions {
  connection: SshConnection;
  machine: string;
  /** The way in that the connection uses. */
  endpoint: SshEndpoint;
  key: SshKey;
  pins: HostKeyPins;
  tree: TreePush;
  /** The way of rsync, where the machine has it: over the connection that stands, or by an ssh of its own. */
  rsync: "standing" | "own" | null;
  signal: AbortSignal;
}

/** Told how far a push is; `last` says that this is its end. */
export type Report = (done: { files: number; bytes: number }, last?: boolean) => void;
