// Describes the podhost provider: capabilities, credential, and the words of pages and errors. Plain
// data, open to all.

import {
  addressField,
  apiKeyField,
  credentialField,
  readApiKey,
  regionField,
  sshKeyField,
  sshUserField,
  type ProviderDescriptor,
} from "../descriptor.ts";

const NAME = "podhost";

/** Pods with GPUs. */
export const podhost = {
  name: NAME,
  speaks: "RunPod",
  address: "https://api.runpod.io",
  capabilities: {
    runs_here: false,
    owns_machine: true,
    bills: true,
    reports_price: true,
    gpus: "required",
    nodes_max: 64,
    self_end: true,
    list_by_tag: true,
    spot: false,
  },
  stopsByItself:
    "A watch on the machine ends it, with a key that opens nothing but this machine, when svc has not supervised its run for orphan_grace_minutes. The provider itself only ends machines when the account's credit is used up: it accepts time limits and does not act on them.",
  gpus: "H200 H100 A100 L40S L40 A6000 A40 RTX4090 A10 B300 MI300X B200 RTX-PRO-6000 RTX6000Ada RTX5000Ada RTX-PRO-4500 RTX3090Ti A5000 A30 RTX4000Ada A4500 RTX5080 RTX4080SUPER RTX4080 RTX2000Ada RTX4070Ti RTX3080Ti RTX3080 RTX3070".split(
    " ",
  ),
  idleTimeoutMinutes: 30,
  interruptionNoticeSeconds: null,
  minimumBilledSeconds: 0,
  installsDriver: false,
  fixedGpus: false,
  withoutConda: true,
  credential: {
    about: "Pods with one or more GPUs; one run can use several nodes.",
    fields: [
      apiKeyField(
        NAME,
        "In the provider’s console: Settings, API keys. The key needs permission to create and terminate pods.",
      ),
      credentialField(NAME, "api", "Interface", { note: "which of its interfaces is spoken" }),
      regionField(NAME),
      credentialField(NAME, "network", "Network"),
      sshUserField(NAME),
      sshKeyField(NAME, { first: true }),
      addressField(NAME),
    ],
    anchors: ["api_key"],
    secretField: "api_key",
    read: readApiKey,
  },
  words: {
    vendor: "RunPod",
    needs: "`PODHOST_API_KEY`",
    asked: "GraphQL, or REST v2 when that is retired",
    priceCap: "enforced",
    owns: "yes",
    selfEnd: "yes",
    listed: "yes",
    disk: "40 GB",
    absenceProof: "4 min",
    absenceBasis: "a margin of svc, not measured at the vendor (November 2026)",
    ends: {
      shortly: "its guard, with a key for this pod alone",
      byItself: "the pod's own key terminates it, else stops it",
      byProvider: "only the end of the account's credit; its timers do nothing",
      leftOver: "a stopped pod's disk, where terminating was refused",
    },
  },
} as const satisfies ProviderDescriptor;
