import type { ProviderDescriptor } from "../descriptor.ts";

/** This computer, at no cost. */
export const local = {
  name: "local",
  speaks: "processes on this computer",
  address: null,
  capabilities: {
    runs_here: true,
    owns_machine: true,
    bills: false,
    reports_price: true,
    gpus: "none",
    nodes_max: 1,
    self_end: false,
    list_by_tag: true,
    spot: false,
  },
  stopsByItself:
    "The run ends with its script. After a SIGKILL of the control plane its local runs continue on this " +
    "computer and cost nothing.",
  gpus: [],
  idleTimeoutMinutes: 0,
  interruptionNoticeSeconds: null,
  minimumBilledSeconds: 0,
  installsDriver: false,
  fixedGpus: false,
  withoutConda: false,
  credential: null,
  words: {
    vendor: "this computer",
    needs: "nothing",
    asked: "processes",
    priceCap: "free",
    owns: "yes",
    selfEnd: "no",
    listed: "yes",
    disk: "–",
    absenceProof: "–",
    absenceBasis: "nothing is ordered",
    ends: { shortly: "nothing to stop", byItself: "nothing: it costs nothing", byProvider: "–", leftOver: "–" },
  },
} as const satisfies ProviderDescriptor;
