// Describes the market provider: capabilities, credential, and the words of pages and errors. Plain
// data, open to all.

import {
  addressField,
  apiKeyField,
  readApiKey,
  regionField,
  sshKeyField,
  sshUserField,
  type ProviderDescriptor,
} from "../descriptor.ts";

const NAME = "market";

/** A marketplace of other people's machines. */
export const market = {
  name: NAME,
  speaks: "Vast.ai",
  address: "https://console.vast.ai",
  capabilities: {
    runs_here: false,
    owns_machine: true,
    bills: true,
    reports_price: true,
    gpus: "required",
    nodes_max: 1,
    self_end: true,
    list_by_tag: true,
    spot: true,
  },
  stopsByItself:
    "The machine itself: its guard ends it by the provider's API, with a key for this machine alone, once svc has not supervised " +
    "the run within orphan_grace_minutes. The provider stops it when the account's credit is used up, and at the end date " +
    "that was fixed when it was rented; from then on its disk still costs money until the provider deletes it.",
  gpus: "H200 H100 A100 A100-PCIe L40S L40 A6000 A40 RTX5090 RTX4090 RTX3090 L4 A10 A4000 B300 B200 RTX-PRO-6000 RTX6000Ada RTX5000Ada RTX-PRO-4500 RTX3090Ti A5000 A30 RTX4000Ada A4500 RTX5080 RTX4080SUPER RTX4080 RTX2000Ada RTX4070Ti RTX3080Ti RTX3080 RTX3070".split(
    " ",
  ),
  idleTimeoutMinutes: 30,
  interruptionNoticeSeconds: null,
  minimumBilledSeconds: 0,
  installsDriver: false,
  fixedGpus: false,
  withoutConda: false,
  credential: {
    about: "A marketplace: svc rents the cheapest machine that fits.",
    fields: [
      apiKeyField(NAME, "In the marketplace’s console: Account, API keys."),
      regionField(NAME),
      sshUserField(NAME),
      sshKeyField(NAME, {
        first: true,
        help: "svc attaches its public half to each machine. The first login is faster if you also register it at the marketplace, under SSH keys.",
      }),
      addressField(NAME),
    ],
    anchors: ["api_key"],
    secretField: "api_key",
    read: readApiKey,
  },
  words: {
    vendor: "Vast.ai",
    needs: "`MARKET_API_KEY`",
    asked: "REST",
    priceCap: "enforced",
    owns: "yes",
    selfEnd: "yes",
    listed: "yes",
    disk: "50 GB",
    absenceProof: "5 min",
    absenceBasis: "a margin of svc, not measured at the vendor (November 2026)",
    ends: {
      shortly: "its guard, with a key for this instance alone",
      byItself: "the instance's own key destroys it, else stops it",
      byProvider: "end of credit; end of the rental period",
      leftOver: "a stopped instance's disk, where destroying was refused",
    },
  },
} as const satisfies ProviderDescriptor;
