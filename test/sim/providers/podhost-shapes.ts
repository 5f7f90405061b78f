// The form of a pod in each of the APIs of the pod host.

import type { Pod } from "./podhost-pods.ts";

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
    runtime: running ? { ports: shown ? portsOrdered(pod, host, port) : [] } : null,
    mounts: {},
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

/** Every TCP port that the order asked for; all of them lead to the machine's sshd. */
const portsOrdered = (pod: Pod, ip: string, port: number): Record<string, unknown>[] =>
  pod.ports
    .split(",")
    .flatMap((each) => /^(\d+)\/tcp$/.exec(each)?.[1] ?? [])
    .map((own) => ({ private: Number(own), public: port, type: "tcp", ip }));
