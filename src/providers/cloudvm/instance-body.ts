// Builds the request for a new machine.

import { createHash } from "node:crypto";
import { SvcError } from "../../errors/index.ts";
import { stopGraceSeconds } from "../../domain/stop-grace.ts";
import { ACCEPTED_TRIES, guardDir, guardScript, guardTimes } from "../guard.ts";
import type { Order } from "../provider.ts";
import { regionOf, type MachinePlan, type Settings } from "./machine-types.ts";
import type { Place } from "./place.ts";

const SECOND_MIN = 30;
const SECOND_MAX = 120 * 24 * 3_600;
/** Maximum run time of a flex-start machine: the provider refuses an order for longer. */
const FLEX_RUN_SECONDS_MAX = 7 * 24 * 3_600;
/** Default limit. Up to a week a machine may also draw on a second quota, which makes it easier to get. */
const SECONDS_DEFAULT = 7 * 24 * 3_600;
/** Time for the work around the run: start, sync, install and collect, each as long as it may take (`PHASE_LIMIT_MS`). */
export const SECONDS_AROUND = 11 * 3_600;

/** The creator: the mark of the installation, which is the second part of every name. */
export const ownerOf = (name: string): string | null => /^svc-([a-z0-9]{1,40})-/.exec(name)?.[1] ?? null;

const label = (value: string): string =>
  value
    .toLowerCase()
    .replace(/[^a-z0-9_-]/g, "-")
    .slice(0, 63);

/** The same order in the same zone always gives the same request, so that it may be sent again. */
export function requestIdOf(name: string, zone: string): string {
  const hex = createHash("sha256").update(`svc insert ${name} ${zone}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** Seconds of running after which the provider deletes the machine, whatever happened to svc. */
export function limitSeconds(spec: Order["spec"], provisioning: MachinePlan["provisioning"] = "STANDARD"): number {
  const run = spec.max_runtime_minutes ?? 0;
  if (run === 0) return SECONDS_DEFAULT;
  const seconds = Math.ceil(run * 60 + stopGraceSeconds(spec) + SECONDS_AROUND + spec.orphan_grace_minutes * 60);
  const most = provisioning === "FLEX_START" ? FLEX_RUN_SECONDS_MAX : SECOND_MAX;
  return Math.min(most, Math.max(SECOND_MIN, seconds));
}

/**
 * Shell text that ends the machine from inside. When powered off it computes and bills no more; its disk does until the
 * control plane deletes it, because the provider's limit counts only while the machine runs. It acts only if the start
 * script has left this machine's name. A service, a disk or a mount that never stops may delay the system's own end: then, and sooner once the
 * budget is spent, the machine is powered off without it. Nothing on its disk is needed any more.
 */
export const powerOff = (name: string): string => `if [ "$(svc_env SVC_MACHINE)" != ${name} ]; then
  echo "this is not the machine ${name}"
  exit 1
fi
{ [ "\${tries:-1}" -gt "\${patience:-${ACCEPTED_TRIES}}" ] && poweroff -f -n; } || poweroff || shutdown -h now`;

const startScript = (order: Order): string => {
  const guard = guardScript({
    name: order.name,
    ...guardTimes(order.spec),
    selfEnd: powerOff(order.name),
    limit: order.limit ?? null,
  });
  const dir = guardDir(order.name);
  return guard.replace("\n", `\nmkdir -p ${dir} && echo ${order.name} >${dir}/SVC_MACHINE\n`);
};

export function instanceBody(
  order: Order,
  plan: MachinePlan,
  { project, zone }: Place,
  settings: Settings,
  login: { user: string; publicKey: string },
): Record<string, unknown> {
  const labels = {
    "svc-owner": label(ownerOf(order.name) ?? "none"),
    "svc-job": label(order.jobId),
    "svc-node": label(String(order.node)),
  };
  const metadata: Record<string, string> = {
    "ssh-keys": `${login.user}:${login.publicKey}`,
    // With OS Login enabled for the whole project, keys in the metadata would be ignored.
    "enable-oslogin": "FALSE",
    "block-project-ssh-keys": "TRUE",
    ...(plan.hasGpu ? { "install-nvidia-driver": "True" } : {}),
    "startup-script": startScript(order),
  };
  return {
    name: order.name,
    machineType: `zones/${zone}/machineTypes/${plan.machineType}`,
    labels,
    disks: [
      {
        boot: true,
        autoDelete: true,
        type: "PERSISTENT",
        initializeParams: {
          sourceImage: plan.image,
          diskSizeGb: String(plan.diskGb),
          diskType: `zones/${zone}/diskTypes/${plan.diskType}`,
          labels,
        },
      },
    ],
    ...(plan.accelerator === null
      ? {}
      : {
          guestAccelerators: [
            {
              acceleratorType: `projects/${project}/zones/${zone}/acceleratorTypes/${plan.accelerator.type}`,
              acceleratorCount: plan.accelerator.count,
            },
          ],
        }),
    scheduling: {
      onHostMaintenance: "TERMINATE",
      // A machine that restarts by itself has lost its run.
      automaticRestart: false,
      provisioningModel: plan.provisioning,
      maxRunDuration: { seconds: String(limitSeconds(order.spec, plan.provisioning)) },
      instanceTerminationAction: "DELETE",
    },
    ...(plan.provisioning === "FLEX_START" ? { params: { requestValidForDuration: { seconds: FLEX_SECONDS } } } : {}),
    ...reservationOf(plan, settings),
    ...shieldedOf(settings),
    networkInterfaces: [
      {
        ...networkOf(settings, regionOf(zone)),
        ...(isInternal(settings)
          ? {}
          : { accessConfigs: [{ type: "ONE_TO_ONE_NAT", name: "External NAT", networkTier: "PREMIUM" }] }),
      },
    ],
    metadata: { items: Object.entries(metadata).map(([key, value]) => ({ key, value })) },
    tags: { items: ["svc"] },
  };
}

/**
 * How long a flex-start order waits for capacity: less than a run waits for its machine. The provider accepts 90 s to 2
 * hours.
 */
const FLEX_SECONDS = "900";

function reservationOf(plan: MachinePlan, settings: Settings): { reservationAffinity?: object } {
  // Such a machine comes from a separate pool, and the provider refuses it with any reservation.
  if (plan.provisioning === "FLEX_START") return { reservationAffinity: { consumeReservationType: "NO_RESERVATION" } };
  const name = settings["reservation"]?.trim() ?? "";
  // A spot machine comes from no reservation.
  if (name === "" || plan.provisioning === "SPOT") return {};
  if (!/^(projects\/[a-z0-9.:-]+\/reservations\/)?[a-z][-a-z0-9]{0,62}$/.test(name))
    throw new SvcError("credential_missing", {
      provider: "cloudvm",
      missing: "reservation is neither a name nor a path such as projects/PROJECT/reservations/NAME",
    });
  const key = "compute.googleapis.com/reservation-name";
  return { reservationAffinity: { consumeReservationType: "SPECIFIC_RESERVATION", key, values: [name] } };
}

/** Whether machines get no external address: then this computer must be in their network, or in a connected one. */
export const isInternal = (settings: Settings): boolean =>
  choiceOf(settings, "addresses", ["external", "internal"]) === "internal";

function shieldedOf(settings: Settings): { shieldedInstanceConfig?: object } {
  const choice = choiceOf(settings, "shielded", ["off", "on", "secure-boot"]);
  if (choice === "off") return {};
  const enableSecureBoot = choice === "secure-boot";
  return { shieldedInstanceConfig: { enableSecureBoot, enableVtpm: true, enableIntegrityMonitoring: true } };
}

/** The first choice is the default. */
function choiceOf(settings: Settings, field: string, choices: readonly [string, ...string[]]): string {
  const word = settings[field]?.trim().toLowerCase() ?? "";
  if (word === "" || choices.includes(word)) return word || choices[0];
  throw new SvcError("credential_missing", {
    provider: "cloudvm",
    missing: `${field} ${JSON.stringify(word.slice(0, 80))} is none of ${choices.join(", ")}`,
  });
}

function networkOf(settings: Settings, region: string): { network?: string; subnetwork?: string } {
  const network = pathOf("network", settings["network"], "global/networks/");
  const subnetwork = pathOf("subnetwork", settings["subnetwork"], `regions/${region}/subnetworks/`);
  if (subnetwork !== null) return { ...(network === null ? {} : { network }), subnetwork };
  return { network: network ?? "global/networks/default" };
}

function pathOf(field: string, value: string | undefined, folder: string): string | null {
  const text = value?.trim() ?? "";
  if (text === "") return null;
  if (/^[a-z][-a-z0-9]{0,62}$/.test(text)) return folder + text;
  if (/^(projects\/[a-z0-9.:-]+\/)?(global|regions\/[a-z0-9-]+)\/(networks|subnetworks)\/[a-z][-a-z0-9]*$/.test(text))
    return text;
  throw new SvcError("credential_missing", {
    provider: "cloudvm",
    missing: `${field} is neither a name nor a path such as ${folder}name`,
  });
}
