// Describes the notebook provider: capabilities, credential, and the words of pages and errors. Plain
// data, open to all.

import {
  credentialField,
  sshKeyField,
  type CredentialReader,
  type SecretReading,
  type ProviderDescriptor,
} from "../descriptor.ts";

const NAME = "notebook";

/** A runtime that its owner opened. */
export const notebook = {
  name: NAME,
  speaks: "a notebook runtime behind a tunnel",
  address: null,
  capabilities: {
    runs_here: false,
    owns_machine: false,
    bills: false,
    reports_price: true,
    gpus: "optional",
    nodes_max: 1,
    self_end: false,
    list_by_tag: false,
    spot: false,
  },
  stopsByItself:
    "Its owner, by closing the notebook: svc ends its run there and never the runtime. The notebook's own limits end it, too.",
  gpus: ["A100", "V100", "T4"],
  idleTimeoutMinutes: 30,
  interruptionNoticeSeconds: null,
  minimumBilledSeconds: 0,
  installsDriver: false,
  fixedGpus: false,
  withoutConda: false,
  credential: {
    about: "A notebook runtime that you open yourself. svc reaches it through a tunnel and never ends it.",
    guide: { href: "/connect/notebook", title: "The cell to run in the notebook" },
    fields: [
      credentialField(NAME, "host", "Host", {
        first: true,
        help: "Printed by the notebook cell.",
        note: "required, unless `endpoint` or `proxy_command` is given",
      }),
      credentialField(NAME, "port", "Port", {
        first: true,
        help: "Printed by the notebook cell.",
        note: "required with `host`",
      }),
      credentialField(NAME, "endpoint", "Endpoint", {
        first: true,
        help: "Paste the whole line that the notebook cell printed. It sets host and port.",
        note: "the line that the bootstrap cell printed, pasted whole",
      }),
      credentialField(NAME, "host_key", "Host key", { note: "the key that the bootstrap cell printed" }),
      credentialField(NAME, "ssh_user", "SSH user", { first: true, note: "`root` unless given" }),
      credentialField(NAME, "proxy_command", "Proxy command", {
        secret: true,
        note: "a command whose standard streams lead to sshd",
      }),
      sshKeyField(NAME),
    ],
    anchors: ["endpoint", "host", "proxy_command"],
    secretField: null,
    read: readEndpoint,
  },
  words: {
    vendor: "a notebook runtime of the Colab kind, through a tunnel",
    needs: "the line that its bootstrap cell prints, as `NOTEBOOK_ENDPOINT`",
    asked: "SSH alone",
    priceCap: "free to svc",
    owns: "no: adopts, lets go",
    selfEnd: "no",
    listed: "no",
    disk: "the runtime's",
    absenceProof: "at once",
    absenceBasis: "nothing is ordered",
    ends: {
      shortly: "**nothing by svc**: shut the notebook down yourself",
      byItself: "nothing",
      byProvider: "the notebook's own limits",
      leftOver: "close the notebook",
    },
  },
} as const satisfies ProviderDescriptor;

function readEndpoint(from: CredentialReader): SecretReading {
  const { settings } = from;
  dropOtherAddress(from);
  const anchor = notebook.credential.anchors.find((name) => settings[name] !== undefined);
  const source = anchor === undefined ? null : from.sourceOf(anchor);
  const port = settings["port"] ?? settings["endpoint"] ?? settings["proxy_command"];
  const cell = "the bootstrap cell prints its value, the line SVC-ENDPOINT: GET /v1/notebook/bootstrap";
  if (anchor === undefined) return { secret: "", source, missing: [`${from.toSet("endpoint")} (${cell})`] };
  // The user may have pasted the host with its surroundings: tcp://host:port.
  const isWithoutPort = port === undefined && !/[:\s]/.test(settings["host"] ?? "");
  return { secret: "", source, missing: isWithoutPort ? [from.toSet("port")] : [] };
}

/** An address from the environment is not combined with the store's settings for another address. */
function dropOtherAddress(from: CredentialReader): void {
  const others =
    from.sourceOf("endpoint") === "env"
      ? ["host", "port", "host_key"]
      : from.sourceOf("host") === "env"
        ? ["endpoint", "host_key"]
        : [];
  for (const name of others) if (from.sourceOf(name) === "store") delete from.settings[name];
}
