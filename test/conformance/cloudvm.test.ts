// @module-tag needs/sshd

import { conformance } from "./provider.ts";
import { cloudvmWorld } from "./worlds.ts";

conformance("cloudvm", cloudvmWorld);
