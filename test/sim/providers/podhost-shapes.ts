// The fields of the pod host's types and inputs, and the form of a pod in each of its APIs.

import type { Shapes } from "./graphql-text.ts";
import type { Pod } from "./podhost-pods.ts";

const plain = (names: string): Record<string, null> =>
  Object.fromEntries(names.split(/\s+/).map((name) => [name, null]));

export const SHAPES: Shapes = {
  User: {
    ...plain("id email clientBalance currentSpendPerHr spendLimit minBalance underBalance pubKey"),
    pods: "Pod",
  },
  Pod: {
    ...plain(
      "id name desiredStatus lastStatusChange costPerHr adjustedCostPerHr gpuCount vcpuCount memoryInGb imageName env ports containerDiskInGb volumeInGb volumeMountPath networkVolumeId templateId machineId podType createdAt lastStartedAt uptimeSeconds dockerArgs",
    ),
    machine: "PodMachine",
    runtime: "PodRuntime",
  },
  PodMachine: plain(
    "podHostId gpuDisplayName gpuTypeId location dataCenterId secureCloud supportPublicIp maintenanceStart",
  ),
  PodRuntime: { uptimeInSeconds: null, ports: "PodPort", gpus: "PodGpuUse", container: "PodContainer" },
  PodPort: plain("ip isIpPublic privatePort publicPort type"),
  PodGpuUse: plain("id gpuUtilPercent memoryUtilPercent"),
  PodContainer: plain("cpuPercent memoryPercent"),
  GpuType: {
    ...plain(
      "id displayName manufacturer memoryInGb secureCloud communityCloud securePrice communityPrice secureSpotPrice communitySpotPrice maxGpuCount maxGpuCountSecureCloud maxGpuCountCommunityCloud",
    ),
    lowestPrice: "LowestPrice",
  },
  LowestPrice: plain(
    "uninterruptablePrice minimumBidPrice stockStatus availableGpuCounts maxUnreservedGpuCount minVcpu minMemory countryCode",
  ),
  DataCenter: { ...plain("id name location listed"), gpuAvailability: "GpuAvailability" },
  GpuAvailability: plain("gpuTypeId displayName stockStatus available"),
};

const CREATE = [
  "name gpuTypeId gpuTypeIdList gpuCount cloudType dataCenterId countryCode imageName dockerArgs ports env containerDiskInGb",
  "volumeInGb volumeMountPath networkVolumeId minVcpuCount minMemoryInGb minDisk minDownload minUpload minCudaVersion",
  "allowedCudaVersions supportPublicIp startSsh startJupyter templateId containerRegistryAuthId deployCost stopAfter",
  "terminateAfter",
].join(" ");

/** Fields that each input accepts; others are refused. */
export const INPUTS: Readonly<Record<string, { type: string; fields: string }>> = {
  podFindAndDeployOnDemand: { type: "PodFindAndDeployOnDemandInput", fields: CREATE },
  podRentInterruptable: {
    type: "PodRentInterruptableInput",
    fields: `${CREATE} bidPerGpu`.replace("gpuTypeIdList ", ""),
  },
  pod: { type: "PodFilter", fields: "podId" },
  podStop: { type: "PodStopInput", fields: "podId incrementVersion" },
  podResume: { type: "PodResumeInput", fields: "podId gpuCount syncMachine computeType" },
  podTerminate: { type: "PodTerminateInput", fields: "podId" },
  gpuTypes: { type: "GpuTypeFilter", fields: "id ids" },
  lowestPrice: {
    type: "GpuLowestPriceInput",
    fields:
      "gpuCount secureCloud dataCenterId countryCode minDisk totalDisk minMemoryInGb minVcpuCount minCudaVersion allowedCudaVersions supportPublicIp",
  },
};

/** Field and JSON type, to detect values of the wrong type. */
export const KINDS: Readonly<Record<string, "string" | "number" | "boolean">> = {
  name: "string",
  gpuTypeId: "string",
  gpuCount: "number",
  dataCenterId: "string",
  countryCode: "string",
  imageName: "string",
  dockerArgs: "string",
  ports: "string",
  containerDiskInGb: "number",
  volumeInGb: "number",
  minVcpuCount: "number",
  minMemoryInGb: "number",
  minCudaVersion: "string",
  supportPublicIp: "boolean",
  startSsh: "boolean",
  bidPerGpu: "number",
  podId: "string",
  stopAfter: "string",
  terminateAfter: "string",
};

export interface Looks {
  nowMs: number;
  price: unknown;
  hostile: boolean;
}

const iso = (ms: number): string => new Date(ms).toISOString();
const HOSTILE_IP = "-oProxyCommand=touch${IFS}/tmp/svc-sim-hostile";

/** The pod in the form of GraphQL. */
export function podOfGraphql(pod: Pod, { nowMs, price, hostile }: Looks): Record<string, unknown> {
  const port = pod.tunnel?.port ?? null;
  const ways = [
    { ip: "100.65.0.101", isIpPublic: false, privatePort: 8888, publicPort: 60_141, type: "http" },
    {
      ip: hostile ? HOSTILE_IP : (pod.tunnel?.host ?? null),
      isIpPublic: true,
      privatePort: 22,
      publicPort: hostile ? "22;touch /tmp/svc-sim-hostile" : port,
      type: "tcp",
    },
  ];
  const uptimeInSeconds = Math.floor((nowMs - pod.startedAtMs) / 1000);
  const gpus = Array.from({ length: pod.gpuCount }, (_, i) => ({
    id: `GPU-${i}`,
    gpuUtilPercent: 0,
    memoryUtilPercent: 0,
  }));
  return {
    id: pod.id,
    name: pod.name,
    desiredStatus: pod.desiredStatus,
    lastStatusChange: hostile ? "\x1B[2J$(touch /tmp/svc-sim-hostile)\r\n" : pod.lastStatusChange,
    costPerHr: price,
    adjustedCostPerHr: price,
    gpuCount: pod.gpuCount,
    vcpuCount: 16,
    memoryInGb: 125,
    imageName: pod.imageName,
    env: Object.entries(pod.env).map(([key, value]) => `${key}=${value}`),
    ports: pod.ports,
    containerDiskInGb: pod.containerDiskInGb,
    volumeInGb: pod.volumeInGb,
    volumeMountPath: "/workspace",
    machineId: pod.machineId,
    podType: pod.interruptible ? "INTERRUPTABLE" : "RESERVED",
    uptimeSeconds: 0,
    createdAt: iso(pod.madeAtMs),
    lastStartedAt: iso(pod.startedAtMs),
    dockerArgs: pod.dockerArgs ?? "",
    machine: {
      podHostId: `${pod.id}-64411eb2`,
      gpuDisplayName: pod.gpu.displayName,
      gpuTypeId: pod.gpu.id,
      location: "US",
      dataCenterId: pod.dataCenterId,
      secureCloud: pod.cloud === "SECURE",
      supportPublicIp: true,
    },
    runtime:
      pod.up && pod.tunnel
        ? {
            uptimeInSeconds,
            ports: pod.portsShown ? ways : null,
            gpus,
            container: {
              cpuPercent: 0,
              memoryPercent: 1,
            },
          }
        : null,
  };
}

/** The pod in the form of the second API. */
export function podOfRest(pod: Pod, { price, hostile }: Looks): Record<string, unknown> {
  const running = pod.up && pod.tunnel !== null;
  const ended = pod.exitedAtMs !== null;
  const host = hostile ? HOSTILE_IP : (pod.tunnel?.host ?? "");
  const port = pod.tunnel?.port ?? 0;
  const status = ended
    ? "TERMINATED"
    : pod.desiredStatus === "EXITED"
      ? "EXITED"
      : running
        ? "RUNNING"
        : "PROVISIONING";
  const shown = running && pod.portsShown;
  return {
    id: pod.id,
    name: pod.name,
    status: pod.broken && !ended ? "ERROR" : status,
    image: pod.imageName,
    cost: price,
    args: pod.dockerArgs,
    disk: pod.containerDiskInGb,
    env: pod.env,
    cloud: pod.cloud,
    machineId: pod.machineId,
    gpu: {
      id: pod.gpu.id,
      count: pod.gpuCount,
    },
    createdAt: new Date(pod.madeAtMs).toISOString(),
    dataCenterId: pod.dataCenterId,
    ports: shown
      ? [
          {
            private: 22,
            public: port,
            type: "tcp",
            ip: host,
          },
        ]
      : [],
    ssh: shown
      ? {
          direct: {
            host,
            port,
            username: "root",
            command: `ssh root@${host} -p ${port}`,
          },
          proxy: null,
        }
      : { direct: null },
    globalNetworking: pod.private ? { ip: pod.machine?.privateAddress ?? null } : null,
  };
}
