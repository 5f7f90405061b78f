// The options of a push of a tree, for every transport.

import type { SshEndpoint } from "../domain/endpoint.ts";
import type { TreePush } from "../providers/host.ts";
import type { SshConnection } from "./connection.ts";
import type { HostKeyPins } from "./host-keys.ts";
import type { SshKey } from "./keys.ts";

export interface TreeOptions {
  connection: SshConnection;
  machine: string;
  /** The endpoint that the connection uses. */
  endpoint: SshEndpoint;
  key: SshKey;
  pins: HostKeyPins;
  tree: TreePush;
  /** How rsync runs, if the machine has it: over the existing connection, or by its own ssh. */
  rsync: "standing" | "own" | null;
  /** Whether the machine has rsync, for a tree that goes by tar. */
  mayRsync?: boolean;
  signal: AbortSignal;
}

/** Reports the progress of a push; `last` marks its end. */
export type Report = (done: { files: number; bytes: number }, last?: boolean) => void;
