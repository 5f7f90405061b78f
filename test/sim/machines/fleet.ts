// Machines to rent, for real: each has its own sshd, host key, files and processes on this computer.
//
// F1. Every machine ends with the process that booted it, however that process ends.
// F2. Nothing here reaches beyond this computer: machines see each other and the simulator's API, and no other network.

import type { Fleet } from "../providers/parts.ts";
import { mayMakeNamespaces, namespaceFleet } from "./namespaces.ts";
import { plainFleet } from "./plain.ts";

export interface FleetOptions {
  /** An existing folder of this fleet's own. */
  dir: string;
  /** Tried out where it is not given. */
  kind?: "namespaces" | "plain";
  /** Folders of this computer that machines out of namespaces see, read-only, and where: `["/a:/opt/a"]`. */
  binds?: readonly string[];
}

/** `boot` resolves as soon as the machine has its address; sshd answers `bootMs` after the call. */
export async function makeFleet({ dir, kind, binds = [] }: FleetOptions): Promise<Fleet> {
  const wanted = kind ?? ((await mayMakeNamespaces()) ? "namespaces" : "plain");
  return wanted === "namespaces" ? namespaceFleet(dir, binds) : plainFleet(dir);
}
