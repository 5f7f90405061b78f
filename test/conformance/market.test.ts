// @module-tag needs/sshd

import { conformance } from "./provider.ts";
import { marketWorld } from "./worlds.ts";

conformance("market", () => marketWorld());
// Where every call that comes too early is refused.
conformance("market", () => marketWorld({ intervals: true }), "within its intervals");
