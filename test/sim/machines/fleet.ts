// Real machines to rent: each has its own sshd, host key, files and processes on this computer.

import type { Fleet } from "../providers/parts.ts";
import { mayMakeNamespaces, namespaceFleet } from "./namespaces.ts";
import { plainFleet } from "./plain.ts";

export interface FleetOptions {
  /** An existing folder of this fleet's own. */
  dir: string;
  /** Found by a trial if it is not given. */
  kind?: "namespaces" | "plain";
  /** Folders of this computer that machines of namespaces see, read-only, and their paths: `["/a:/opt/a"]`. */
  binds?: readonly string[];
}

/** `boot` resolves as soon as the machine has its address; sshd answers `bootMs` after the call. */
export async function makeFleet({ dir, kind, binds = [] }: FleetOptions): Promise<Fleet> {
  const wanted = kind ?? ((await mayMakeNamespaces()) ? "namespaces" : "plain");
  return wanted === "namespaces" ? namespaceFleet(dir, binds) : plainFleet(dir);
}
