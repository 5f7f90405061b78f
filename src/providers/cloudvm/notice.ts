// How a spot machine learns that the cloud takes it back: its metadata server says so about 30 seconds before.

import type { MachineHandle, PreemptionNotice } from "../provider.ts";
import { cloudvm } from "./descriptor.ts";
import type { Settings } from "./machine-types.ts";
import type { Instance } from "./wire.ts";

const METADATA = "http://169.254.169.254";
const PATH = "/computeMetadata/v1/instance/preempted";

/** Null for a machine on demand, which is not taken back. The setting `metadata_url` is for simulators; `{name}` is the machine's. */
export function noticeOf(handle: MachineHandle, settings: Settings): PreemptionNotice | null {
  if (handle.extra?.["spot"] !== "yes") return null;
  const base = (settings["metadata_url"] ?? METADATA).replace("{name}", handle.name).replace(/\/+$/, "");
  return {
    url: `${base}${PATH}`,
    headers: { "Metadata-Flavor": "Google" },
    says: "TRUE",
    seconds: cloudvm.interruptionNoticeSeconds,
  };
}

/** The facts of a listed machine that its handle keeps, so that it is known as a spot machine when its order's answer was lost. */
export const spotOf = ({ scheduling }: Instance): { spot?: "yes" } =>
  scheduling?.provisioningModel === "SPOT" ? { spot: "yes" } : {};
