import { conformance } from "./provider.ts";
import { cloudvmWorld } from "./worlds.ts";

conformance("cloudvm", cloudvmWorld);
