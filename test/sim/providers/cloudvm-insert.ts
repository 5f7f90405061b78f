// The simulated cloud's checks of the body of an insert: every field known, every rule that would refuse it at once.

import {
  ACCELERATOR_TYPES,
  IMAGE_FAMILIES,
  IMAGE_GB,
  IMAGE_PROJECT,
  machineType,
  PLAIN_IMAGES,
  ZONES,
  type AcceleratorType,
} from "./cloudvm-catalogue.ts";

export class CloudError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly domain: string;

  constructor(status: number, reason: string, message: string, domain = "global") {
    super(message);
    this.status = status;
    this.reason = reason;
    this.domain = domain;
  }
}

const MODELS = ["STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND"] as const;
export type ProvisioningModel = (typeof MODELS)[number];

export interface InsertOrder {
  name: string;
  zone: string;
  machineType: string;
  gpus: { type: AcceleratorType; count: number } | null;
  model: ProvisioningModel;
  spot: boolean;
  /** How long the order stays in the queue for capacity; null if it does not queue. */
  queuesMs: number | null;
  onTermination: "STOP" | "DELETE";
  maxRunMs: number | null;
  diskGb: number;
  labels: Record<string, string>;
  metadata: Record<string, string>;
  external: boolean;
  body: Json;
}

export type Json = Record<string, unknown>;
type Shape = { readonly [field: string]: Shape | null };

const fields = (names: string, nested: Shape = {}): Shape => ({
  ...Object.fromEntries(names.split(" ").map((name) => [name, null])),
  ...nested,
});
const INSTANCE = fields(
  "name machineType labels description canIpForward minCpuPlatform deletionProtection resourcePolicies params hostname zone kind " +
    "advancedMachineFeatures reservationAffinity displayDevice networkPerformanceConfig keyRevocationActionType " +
    "shieldedInstanceConfig confidentialInstanceConfig privateIpv6GoogleAccess",
  {
    disks: fields(
      "boot autoDelete type source deviceName index interface mode diskSizeGb kind licenses guestOsFeatures diskEncryptionKey",
      {
        initializeParams: fields(
          "sourceImage diskSizeGb diskType labels diskName sourceSnapshot resourcePolicies provisionedIops provisionedThroughput architecture description",
        ),
      },
    ),
    guestAccelerators: fields("acceleratorType acceleratorCount"),
    scheduling: fields(
      "onHostMaintenance automaticRestart preemptible provisioningModel instanceTerminationAction terminationTime nodeAffinities minNodeCpus localSsdRecoveryTimeout onInstanceStopAction hostErrorTimeoutSeconds",
      { maxRunDuration: fields("seconds nanos") },
    ),
    networkInterfaces: fields(
      "network subnetwork networkIP name aliasIpRanges nicType stackType queueCount ipv6AccessConfigs kind",
      {
        accessConfigs: fields("type name networkTier natIP kind setPublicPtr publicPtrDomainName"),
      },
    ),
    metadata: fields("fingerprint kind", { items: fields("key value") }),
    tags: fields("items fingerprint"),
    serviceAccounts: fields("email scopes"),
  },
);

const NAME = /^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const LABEL_KEY = /^[a-z][a-z0-9_-]{0,62}$/;
const LABEL_VALUE = /^[a-z0-9_-]{0,63}$/;
const MAX_RUN_S = { least: 30, most: 10_368_000 } as const;
/** The limits of an order that queues: for the queue, and for its machine's run time. */
const FLEX_S = { queueLeast: 90, queueMost: 7_200, runMost: 604_800 } as const;
const RESERVATION_KEY = "compute.googleapis.com/reservation-name";
const METADATA_BYTES = { all: 512 * 1024, one: 256 * 1024 } as const;

const record = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
const list = (value: unknown): Json[] => (Array.isArray(value) ? value.map(record) : []);

const invalid = (field: string, value: unknown, why: string): CloudError =>
  new CloudError(400, "invalid", `Invalid value for field 'resource.${field}': '${show(value)}'. ${why}`);
const show = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** @param reservations names of the project's reservations. */
export function readInsert(
  body: unknown,
  project: string,
  zone: string,
  reservations: ReadonlySet<string> = new Set(),
): InsertOrder {
  if (!ZONES.includes(zone))
    throw new CloudError(404, "notFound", `The resource 'projects/${project}/zones/${zone}' was not found`);
  const given = record(body);
  checkFields(given, INSTANCE, "");
  const { name } = given;
  if (typeof name !== "string" || !NAME.test(name))
    throw invalid("name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'");
  const type = resource("machineType", given["machineType"], project, zone, "machineTypes");
  const sold = machineType(zone, type);
  if (sold === null)
    throw invalid(
      "machineType",
      given["machineType"],
      `Machine type with name '${type}' does not exist in zone '${zone}'.`,
    );
  const gpus = accelerators(given, project, zone, sold);
  const schedule = scheduling(record(given["scheduling"]), gpus);
  const reserved = reservation(record(given["reservationAffinity"]), { project, zone, reservations });
  const queuesMs = schedule.model === "FLEX_START" ? queue(given) : null;
  if (schedule.model === "RESERVATION_BOUND" && reserved === null)
    throw invalid(
      "reservationAffinity",
      given["reservationAffinity"],
      "RESERVATION_BOUND needs a specific reservation.",
    );
  return {
    name,
    zone,
    machineType: type,
    gpus,
    ...schedule,
    queuesMs,
    diskGb: disk(given, gpus, type, project, zone),
    labels: labels("labels", given["labels"]),
    metadata: metadata(given["metadata"]),
    external: network(given, project),
    body: given,
  };
}

function checkFields(value: Json, shape: Shape, path: string): void {
  for (const [name, inner] of Object.entries(value)) {
    if (!Object.hasOwn(shape, name))
      throw new CloudError(
        400,
        "badRequest",
        `Invalid JSON payload received. Unknown name "${name}" at 'resource${path}': Cannot find field.`,
      );
    const nested = shape[name];
    if (nested)
      for (const [i, entry] of (Array.isArray(inner) ? inner : [inner]).entries())
        checkFields(record(entry), nested, `${path}.${name}${Array.isArray(inner) ? `[${i}]` : ""}`);
  }
}

/** Parses `projects/P/zones/Z/KIND/NAME`, also without its first parts; refuses a bare name. */
function resource(field: string, value: unknown, project: string, zone: string, kind: string): string {
  const [, inProject, inZone, name] =
    /^(?:https:\/\/[a-z.]+\/compute\/v1\/)?(?:projects\/([a-z0-9-]+)\/)?zones\/([a-z0-9-]+)\/([A-Za-z]+\/[A-Za-z0-9-]+)$/.exec(
      String(value),
    ) ?? [];
  const [of, last = ""] = (name ?? "").split("/");
  if (of !== kind) throw invalid(field, value, "The URL is malformed.");
  if (inZone !== zone || (inProject !== undefined && inProject !== project))
    throw invalid(field, value, "It is of another zone or project than the instance.");
  return last;
}

function accelerators(
  given: Json,
  project: string,
  zone: string,
  sold: NonNullable<ReturnType<typeof machineType>>,
): InsertOrder["gpus"] {
  const asked = list(given["guestAccelerators"]);
  if (asked.length > 1) throw invalid("guestAccelerators", asked, "Only one type of accelerator can be attached.");
  const [one] = asked;
  if (!one) return sold.bundled;
  const field = "guestAccelerators[0].acceleratorType";
  const name = resource(field, one["acceleratorType"], project, zone, "acceleratorTypes");
  const type = ACCELERATOR_TYPES.find((each) => each.name === name && each.zones.includes(zone));
  if (!type)
    throw new CloudError(
      404,
      "notFound",
      `The resource 'projects/${project}/zones/${zone}/acceleratorTypes/${name}' was not found`,
    );
  const count = Number(one["acceleratorCount"]);
  if (sold.bundled) {
    if (sold.bundled.type !== type || sold.bundled.count !== count)
      throw invalid("guestAccelerators", asked, "The machine type comes with other accelerators.");
    return sold.bundled;
  }
  const vcpusMax = type.counts[count];
  if (type.attach !== "n1" || !sold.n1 || vcpusMax === undefined || sold.vcpus > Number(vcpusMax))
    throw new CloudError(
      400,
      "invalid",
      `[${String(given["machineType"])}, ${name}] features are not compatible for creating instance.`,
    );
  return { type, count };
}

/** How long an order of FLEX_START may queue. Its machine comes from a separate pool, never from a reservation. */
function queue(given: Json): number {
  const valid = record(record(given["params"])["requestValidForDuration"]);
  const seconds = Number(valid["seconds"]);
  if (!Number.isInteger(seconds) || seconds < FLEX_S.queueLeast || seconds > FLEX_S.queueMost)
    throw invalid(
      "params.requestValidForDuration",
      valid,
      `It must be set, between ${FLEX_S.queueLeast} seconds and two hours.`,
    );
  if (record(given["reservationAffinity"])["consumeReservationType"] !== "NO_RESERVATION")
    throw invalid("reservationAffinity", given["reservationAffinity"], "FLEX_START needs NO_RESERVATION.");
  const run = Number(record(record(given["scheduling"])["maxRunDuration"])["seconds"]);
  if (!(run <= FLEX_S.runMost))
    throw invalid("scheduling.maxRunDuration", given["scheduling"], "FLEX_START needs one of at most seven days.");
  return seconds * 1000;
}

/** The name of the machine's reservation; null for any or none. */
function reservation(
  given: Json,
  of: { project: string; zone: string; reservations: ReadonlySet<string> },
): string | null {
  const type = given["consumeReservationType"] ?? "ANY_RESERVATION";
  if (type === "ANY_RESERVATION" || type === "NO_RESERVATION") return null;
  const { key, values } = given;
  const [value] = Array.isArray(values) ? (values as unknown[]) : [];
  if (type !== "SPECIFIC_RESERVATION" || key !== RESERVATION_KEY || typeof value !== "string")
    throw invalid("reservationAffinity", given, "It must name one reservation.");
  const [, project = of.project, name = value] = /^projects\/([^/]+)\/reservations\/(.+)$/.exec(value) ?? [];
  if (project !== of.project || !of.reservations.has(name))
    throw new CloudError(
      404,
      "notFound",
      `The resource 'projects/${project}/zones/${of.zone}/reservations/${name}' was not found`,
    );
  return name;
}

/** The possible GPU counts of a type for the order's terms; for a queue they are those of spot machines. */
function countsOf(type: AcceleratorType, model: ProvisioningModel): readonly number[] {
  if (model === "RESERVATION_BOUND") return Object.keys(type.counts).map(Number);
  return model === "STANDARD" ? type.onDemand : type.spot;
}

function scheduling(
  given: Json,
  gpus: InsertOrder["gpus"],
): Pick<InsertOrder, "model" | "spot" | "onTermination" | "maxRunMs"> {
  const { provisioningModel = "STANDARD", instanceTerminationAction: action, maxRunDuration, terminationTime } = given;
  if (gpus && given["onHostMaintenance"] !== "TERMINATE")
    throw new CloudError(400, "invalid", "Instances with guest accelerators do not support live migration.");
  const model = MODELS.find((each) => each === provisioningModel);
  if (model === undefined) throw invalid("scheduling.provisioningModel", provisioningModel, "Not one of the values.");
  const spot = model === "SPOT";
  if (spot && given["automaticRestart"] !== false)
    throw new CloudError(
      400,
      "invalid",
      "Scheduling must have automaticRestart be false when the provisioning model is SPOT.",
    );
  if (gpus && !countsOf(gpus.type, model).includes(gpus.count))
    throw new CloudError(
      400,
      "invalid",
      `${gpus.count} ${gpus.type.name} cannot be had with provisioning model ${model}; use SPOT or FLEX_START.`,
    );
  if (action !== undefined && action !== "STOP" && action !== "DELETE")
    throw invalid("scheduling.instanceTerminationAction", action, "Not one of the values.");
  if (terminationTime !== undefined && maxRunDuration !== undefined)
    throw invalid("scheduling", given, "Only one of maxRunDuration and terminationTime may be set.");
  if (maxRunDuration === undefined) {
    if (action !== undefined && !spot && terminationTime === undefined)
      throw invalid(
        "scheduling.instanceTerminationAction",
        action,
        "It needs a time limit or provisioning model SPOT.",
      );
    return { model, spot, onTermination: action ?? "STOP", maxRunMs: null };
  }
  const seconds = Number(record(maxRunDuration)["seconds"]);
  if (!Number.isInteger(seconds) || seconds < MAX_RUN_S.least || seconds > MAX_RUN_S.most)
    throw invalid(
      "scheduling.maxRunDuration",
      maxRunDuration,
      `It must be between ${MAX_RUN_S.least} seconds and 120 days.`,
    );
  if (action === undefined)
    throw invalid("scheduling.instanceTerminationAction", action, "It must be set with maxRunDuration.");
  return { model, spot, onTermination: action, maxRunMs: seconds * 1000 };
}

function disk(given: Json, gpus: InsertOrder["gpus"], machine: string, project: string, zone: string): number {
  const boots = list(given["disks"]).filter((one) => one["boot"] === true);
  const [boot] = boots;
  if (!boot || boots.length > 1)
    throw new CloudError(400, "invalid", "Invalid value for field 'resource.disks': one boot disk must be given.");
  const init = record(boot["initializeParams"]);
  labels("disks[0].initializeParams.labels", init["labels"]);
  const image = show(init["sourceImage"] ?? "");
  const [, inProject, family] =
    /^(?:https:\/\/[a-z.]+\/compute\/v1\/)?projects\/([a-z0-9-]+)\/global\/images\/family\/([a-z0-9-]+)$/.exec(image) ??
    [];
  if (inProject === undefined || family === undefined)
    throw invalid("disks[0].initializeParams.sourceImage", image, "The URL is malformed.");
  const learning = inProject === IMAGE_PROJECT && IMAGE_FAMILIES.includes(family);
  if (!learning && !PLAIN_IMAGES.includes(`${inProject}/${family}`))
    throw new CloudError(
      404,
      "notFound",
      `The resource 'projects/${inProject}/global/images/family/${family}' was not found`,
    );
  const least = learning ? IMAGE_GB.learning : IMAGE_GB.plain;
  const size = init["diskSizeGb"] === undefined ? least : Number(init["diskSizeGb"]);
  if (!Number.isInteger(size) || size > 65_536)
    throw invalid("disks[0].initializeParams.diskSizeGb", init["diskSizeGb"], "Not a size.");
  if (size < least)
    throw invalid(
      "disks[0].initializeParams.diskSizeGb",
      init["diskSizeGb"],
      `Requested disk size cannot be smaller than the image size (${least} GB)`,
    );
  if (init["diskType"] !== undefined) {
    const type = resource("disks[0].initializeParams.diskType", init["diskType"], project, zone, "diskTypes");
    const allowed =
      gpus?.type.attach === "bundled"
        ? gpus.type.diskTypes
        : ["pd-balanced", "pd-ssd", "pd-standard", "hyperdisk-balanced"];
    if (!allowed.includes(type))
      throw new CloudError(400, "invalid", `[${machine}, ${type}] features are not compatible for creating instance.`);
  }
  return size;
}

function labels(field: string, value: unknown): Record<string, string> {
  if (value === undefined) return {};
  const given = Object.entries(record(value));
  if (given.length > 64) throw invalid(field, value, "There may be at most 64 labels.");
  for (const [key, text] of given)
    if (!LABEL_KEY.test(key) || typeof text !== "string" || !LABEL_VALUE.test(text))
      throw invalid(`${field}.${key}`, text, "Label keys and values hold lowercase letters, digits, '_' and '-' only.");
  return value as Record<string, string>;
}

function metadata(value: unknown): Record<string, string> {
  const items = list(record(value)["items"]);
  const found = new Map<string, string>();
  for (const { key, value: text } of items) {
    if (typeof key !== "string" || !/^[a-zA-Z0-9_-]{1,128}$/.test(key))
      throw invalid("metadata.items.key", key, "Not a key.");
    if (found.has(key)) throw invalid("metadata", key, "Metadata has duplicate keys.");
    if (typeof text !== "string" || Buffer.byteLength(text) > METADATA_BYTES.one)
      throw invalid("metadata.items.value", key, "The value is no text or too large.");
    found.set(key, text);
  }
  if (Buffer.byteLength(JSON.stringify(items)) > METADATA_BYTES.all)
    throw invalid("metadata", "", "The total size is too large.");
  return Object.fromEntries(found);
}

function network(given: Json, project: string): boolean {
  const nics = list(given["networkInterfaces"]);
  const [nic] = nics;
  if (!nic) throw new CloudError(400, "required", "Required field 'resource.networkInterfaces' not specified");
  const name = /^(?:https:\/\/[a-z.]+\/compute\/v1\/)?(?:projects\/[a-z0-9-]+\/)?global\/networks\/([a-z0-9-]+)$/.exec(
    show(nic["network"] ?? "global/networks/default"),
  )?.[1];
  if (name === undefined) throw invalid("networkInterfaces[0].network", nic["network"], "The URL is malformed.");
  if (name !== "default" && nic["subnetwork"] === undefined)
    throw new CloudError(404, "notFound", `The resource 'projects/${project}/global/networks/${name}' was not found`);
  return list(nic["accessConfigs"]).some((config) => (config["type"] ?? "ONE_TO_ONE_NAT") === "ONE_TO_ONE_NAT");
}
