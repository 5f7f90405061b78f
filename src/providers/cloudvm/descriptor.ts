// Describes the cloudvm provider: capabilities, credential, and the words of pages and errors. Plain
// data, open to all.

import {
  addressField,
  credentialField,
  keyFileField,
  regionField,
  sshKeyField,
  sshUserField,
  type CredentialReader,
  type SecretReading,
  type ProviderDescriptor,
} from "../descriptor.ts";

const NAME = "cloudvm";

/** Virtual machines of a cloud, in the owner's project. */
export const cloudvm = {
  name: NAME,
  speaks: "Google Compute Engine",
  address: "https://compute.googleapis.com",
  capabilities: {
    runs_here: false,
    owns_machine: true,
    bills: true,
    reports_price: false,
    gpus: "optional",
    nodes_max: 64,
    self_end: true,
    list_by_tag: true,
    spot: true,
  },
  stopsByItself:
    "The machine powers itself off when svc no longer supervises its run: then only its disk is billed, until it is deleted. The provider deletes a machine that keeps running, disk included, at the time limit set when it was made: the run's own plus 11 hours and the grace, or 7 days.",
  gpus: ["H100", "A100", "A100-PCIe", "L4", "V100", "T4", "B200", "RTX-PRO-6000"],
  idleTimeoutMinutes: 30,
  // Its documentation, November 2026: a spot machine gets notice 30 s before.
  interruptionNoticeSeconds: 30,
  // Its pricing pages, November 2026: by the second, after a minimum of one minute.
  minimumBilledSeconds: 60,
  installsDriver: true,
  fixedGpus: true,
  withoutConda: false,
  credential: {
    about: "Virtual machines of a cloud, in your own project. The cloud reports no price; see its bill.",
    fields: [
      keyFileField(
        NAME,
        "Its role must allow it to create and delete instances.",
        "required: the path of a JSON key file, its text, or `adc` for the default credentials",
      ),
      credentialField(NAME, "project", "Project", {
        first: true,
        help: "The project’s id, shown at the top of the cloud’s console. Default: the project in the key file.",
        note: "taken from the key file where it is left out",
      }),
      credentialField(NAME, "zone", "Zone", {
        first: true,
        help: "The zone to create machines in, for example the one with your GPU quota.",
        note: "required, unless `region` is set",
      }),
      regionField(NAME),
      credentialField(NAME, "machine_type", "Machine type"),
      credentialField(NAME, "provisioning", "Provisioning"),
      credentialField(NAME, "image", "Image"),
      credentialField(NAME, "network", "Network"),
      credentialField(NAME, "subnetwork", "Subnetwork"),
      credentialField(NAME, "addresses", "Addresses"),
      credentialField(NAME, "reservation", "Reservation"),
      credentialField(NAME, "shielded", "Shielded VM"),
      credentialField(NAME, "rate_usd_per_hour", "Price per hour", {
        note: "of one machine: a budget and estimates count with it",
      }),
      sshUserField(NAME),
      credentialField(NAME, "ssh_port", "SSH port"),
      sshKeyField(NAME),
      addressField(NAME),
    ],
    anchors: ["service_account_json"],
    secretField: "service_account_json",
    read: readServiceAccount,
  },
  words: {
    vendor: "Google Compute Engine",
    needs: "`CLOUDVM_SERVICE_ACCOUNT_JSON` (a key file), `CLOUDVM_ZONE`",
    asked: "REST",
    priceCap: "**not enforced**, `cost_usd` stays 0",
    owns: "yes",
    selfEnd: "yes, its disk stays",
    listed: "yes",
    disk: "100 GB",
    absenceProof: "5 min",
    absenceBasis: "a margin of svc, not measured at the vendor (November 2026)",
    ends: {
      shortly: "its guard powers it off, and the provider deletes it after a limit",
      byItself: "powers off",
      byProvider: "deletes it, with its disk, after the run's limit and 11 hours and the grace, or 7 days, of running",
      leftOver: "the disk of one that powered itself off, until `svc reconcile`",
    },
  },
} as const satisfies ProviderDescriptor;

function readServiceAccount(from: CredentialReader): SecretReading {
  const { settings } = from;
  const missing: string[] = [];
  const key = from.keyFile("service_account_json");
  if (key === null) missing.push(from.toSet("service_account_json"));
  else {
    const project = settings["project"] ?? key.member("project_id") ?? key.member("quota_project_id");
    if (project !== null) settings["project"] = project;
    if (project === null) missing.push(`${from.toSet("project")} (the credential itself names none)`);
  }
  if (settings["zone"] === undefined && settings["region"] === undefined) missing.push(from.toSet("zone"));
  return { secret: key?.text ?? "", source: key?.source ?? null, missing };
}
