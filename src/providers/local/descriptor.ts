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
    "The run ends with its script. A control plane that is killed hard, and does not end in order, ends no run on this " +
    "computer: it costs nothing and keeps running.",
  gpus: [],
  idleTimeoutMinutes: 0,
  interruptionNoticeSeconds: null,
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
    ends: { shortly: "nothing to stop", byItself: "nothing: it costs nothing", byProvider: "–", leftOver: "–" },
  },
} as const satisfies ProviderDescriptor;
