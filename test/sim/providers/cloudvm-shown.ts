// Instances and operations of the simulated cloud in the form of its API, and its messages for a lack of capacity.

import { regionOf } from "./cloudvm-catalogue.ts";
import type { InsertOrder, Json } from "./cloudvm-insert.ts";
import type { Instance, Operation, OperationFailure } from "./cloudvm-instances.ts";

export function shownInstance(project: string, instance: Instance): Json {
  const { order, hostile } = instance;
  const link = (path: string): string => `https://www.googleapis.com/compute/v1/projects/${project}/${path}`;
  const zone = link(`zones/${order.zone}`);
  const time = (ms: number): string => new Date(ms).toISOString();
  const limit =
    order.maxRunMs !== null && instance.startedAtMs !== null ? time(instance.startedAtMs + order.maxRunMs) : undefined;
  return {
    kind: "compute#instance",
    id: instance.id,
    name: order.name,
    status: instance.status,
    zone,
    machineType: `${zone}/machineTypes/${order.machineType}`,
    creationTimestamp: time(instance.madeAtMs),
    ...(instance.startedAtMs !== null && { lastStartTimestamp: time(instance.startedAtMs) }),
    ...(Object.keys(order.labels).length > 0 && { labels: order.labels }),
    labelFingerprint: "42WmSpB8rSM=",
    metadata: {
      fingerprint: "x1y2z3",
      items: Object.entries(order.metadata).map(([key, value]) => ({ key, value })),
    },
    networkInterfaces: [
      {
        name: "nic0",
        ...(instance.networkIp !== null && { networkIP: hostile ? "10.0.0.1;id" : instance.networkIp }),
        network: link("global/networks/default"),
        subnetwork: link(`regions/${regionOf(order.zone)}/subnetworks/default`),
        ...(order.external && {
          accessConfigs: [
            {
              kind: "compute#accessConfig",
              type: "ONE_TO_ONE_NAT",
              name: "External NAT",
              networkTier: "PREMIUM",
              ...(instance.natIp !== null && {
                natIP: hostile ? "-oProxyCommand=touch${IFS}/tmp/owned" : instance.natIp,
              }),
            },
          ],
        }),
      },
    ],
    disks: [
      {
        boot: true,
        autoDelete: true,
        source: `${zone}/disks/${order.name}`,
        index: 0,
        diskSizeGb: String(order.diskGb),
      },
    ],
    scheduling: {
      provisioningModel: order.model,
      automaticRestart: false,
      onHostMaintenance: "TERMINATE",
    },
    ...(limit !== undefined && { resourceStatus: { scheduling: { terminationTimestamp: limit } } }),
    selfLink: `${zone}/instances/${order.name}`,
  };
}

export function shownOperation(project: string, operation: Operation): Json {
  const zone = `https://www.googleapis.com/compute/v1/projects/${project}/zones/${operation.zone}`;
  const time = (ms: number): string => new Date(ms).toISOString();
  return {
    kind: "compute#operation",
    id: operation.id,
    name: operation.name,
    operationType: operation.type,
    status: operation.status,
    progress: operation.status === "DONE" ? 100 : 0,
    targetId: operation.targetId,
    targetLink: `${zone}/instances/${operation.targetName}`,
    zone,
    user: operation.user,
    insertTime: time(operation.insertedAtMs),
    startTime: time(operation.insertedAtMs),
    ...(operation.endedAtMs !== null && { endTime: time(operation.endedAtMs) }),
    ...(operation.requestId !== null && { clientOperationId: operation.requestId }),
    ...(operation.error !== null && {
      error: { errors: [operation.error] },
      httpErrorStatusCode: operation.httpStatus,
      httpErrorMessage: operation.httpStatus === 503 ? "SERVICE UNAVAILABLE" : "FORBIDDEN",
    }),
  };
}

/** The zone has no capacity left; `elsewhere` has some. */
export const stockout = (project: string, order: InsertOrder, elsewhere: readonly string[]): OperationFailure => ({
  code: "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
  message: `The zone 'projects/${project}/zones/${order.zone}' does not have enough resources available to fulfill the request.  '(state:STOCKOUT, resource type:compute)'.`,
  errorDetails: [
    {
      help: {
        links: [
          { description: "Troubleshooting documentation", url: "https://cloud.google.com/compute/docs/resource-error" },
        ],
      },
    },
    {
      errorInfo: {
        reason: "resource_availability",
        domain: "compute.googleapis.com",
        metadatas: { vmType: order.machineType, zone: order.zone, zonesAvailable: elsewhere.join(",") },
      },
    },
  ],
  httpStatus: 503,
});

export const quotaExceeded = (metric: string, region: string, limit: number): OperationFailure => ({
  code: "QUOTA_EXCEEDED",
  message: `Quota '${metric}' exceeded.  Limit: ${limit.toFixed(1)} in region ${region}.`,
  errorDetails: [
    {
      quotaInfo: {
        metricName: `compute.googleapis.com/${metric.toLowerCase()}`,
        limitName: metric,
        dimensions: { region },
        limit,
      },
    },
  ],
  httpStatus: 403,
});
