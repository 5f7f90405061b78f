// @module-tag needs/sshd

import { conformance } from "./provider.ts";
import { marketWorld } from "./worlds.ts";

conformance("market", () => marketWorld());
// A marketplace that refuses every early call.
conformance("market", () => marketWorld({ intervals: true }), "within its intervals");
