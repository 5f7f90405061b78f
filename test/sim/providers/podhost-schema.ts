// The schema of the pod host's GraphQL API, as its documentation and its users describe it.

import { buildSchema } from "graphql";
import { checkInstants } from "./graphql-query.ts";

const CREATE = `
  name: String, gpuTypeId: String, gpuCount: Int, cloudType: CloudTypeEnum, dataCenterId: String, countryCode: String
  imageName: String, dockerArgs: String, ports: String, env: [EnvironmentVariableInput], containerDiskInGb: Int
  volumeInGb: Int, volumeMountPath: String, networkVolumeId: String, minVcpuCount: Int, minMemoryInGb: Int, minDisk: Int
  minDownload: Int, minUpload: Int, minCudaVersion: String, allowedCudaVersions: [String], supportPublicIp: Boolean
  startSsh: Boolean, startJupyter: Boolean, templateId: String, containerRegistryAuthId: String, deployCost: Float
  stopAfter: DateTime, terminateAfter: DateTime`;

export const SCHEMA = checkInstants(
  buildSchema(`
  scalar DateTime
  enum CloudTypeEnum { ALL SECURE COMMUNITY }
  input EnvironmentVariableInput { key: String!, value: String! }
  input PodFindAndDeployOnDemandInput { ${CREATE}, gpuTypeIdList: [String] }
  input PodRentInterruptableInput { ${CREATE}, bidPerGpu: Float! }
  input PodFilter { podId: String! }
  input PodStopInput { podId: String!, incrementVersion: Boolean }
  input PodResumeInput { podId: String!, gpuCount: Int, syncMachine: Boolean, computeType: String }
  input UpdateUserSettingsInput { pubKey: String }
  input PodTerminateInput { podId: String! }
  input GpuTypeFilter { id: String, ids: [String] }
  input GpuLowestPriceInput {
    gpuCount: Int, secureCloud: Boolean, dataCenterId: String, countryCode: String, minDisk: Int, totalDisk: Int
    minMemoryInGb: Int, minVcpuCount: Int, minCudaVersion: String, allowedCudaVersions: [String], supportPublicIp: Boolean
  }

  type Query {
    myself: User
    pod(input: PodFilter): Pod
    gpuTypes(input: GpuTypeFilter): [GpuType]
    dataCenters: [DataCenter]
    countryCodes: [String]
  }
  type Mutation {
    podFindAndDeployOnDemand(input: PodFindAndDeployOnDemandInput): Pod
    podRentInterruptable(input: PodRentInterruptableInput!): Pod
    podStop(input: PodStopInput!): Pod
    podResume(input: PodResumeInput!): Pod
    podTerminate(input: PodTerminateInput!): Boolean
    updateUserSettings(input: UpdateUserSettingsInput): User
  }

  type User {
    id: ID, email: String, clientBalance: Float, currentSpendPerHr: Float, spendLimit: Int, minBalance: Float
    underBalance: Boolean, pubKey: String, pods: [Pod], podTemplates: [PodTemplate]
    networkVolumes: [NetworkVolume]
  }
  type NetworkVolume { id: ID, name: String, size: Int, dataCenterId: String }
  type PodTemplate { id: ID, name: String, imageName: String, containerRegistryAuthId: String }
  type Pod {
    id: ID, name: String, desiredStatus: String, lastStatusChange: String, costPerHr: Float, adjustedCostPerHr: Float
    gpuCount: Int, vcpuCount: Float, memoryInGb: Float, imageName: String, env: [String], ports: String
    containerDiskInGb: Int, volumeInGb: Float, volumeMountPath: String, networkVolumeId: String, templateId: String
    machineId: String, podType: String, createdAt: DateTime, lastStartedAt: DateTime, uptimeSeconds: Int
    dockerArgs: String, dockerId: String, port: Int, containerRegistryAuthId: String, machine: PodMachine
    runtime: PodRuntime
  }
  type PodMachine {
    podHostId: String, gpuDisplayName: String, gpuTypeId: String, location: String, dataCenterId: String
    secureCloud: Boolean, supportPublicIp: Boolean, maintenanceStart: DateTime
  }
  type PodRuntime { uptimeInSeconds: Int, ports: [PodPort], gpus: [PodGpuUse], container: PodContainer }
  type PodPort { ip: String, isIpPublic: Boolean, privatePort: Int, publicPort: Int, type: String }
  type PodGpuUse { id: String, gpuUtilPercent: Float, memoryUtilPercent: Float }
  type PodContainer { cpuPercent: Float, memoryPercent: Float }
  type GpuType {
    id: String, displayName: String, manufacturer: String, memoryInGb: Int, secureCloud: Boolean, communityCloud: Boolean
    securePrice: Float, communityPrice: Float, secureSpotPrice: Float, communitySpotPrice: Float, maxGpuCount: Int
    maxGpuCountSecureCloud: Int, maxGpuCountCommunityCloud: Int, cudaCores: Int, oneWeekPrice: Float
    oneMonthPrice: Float, threeMonthPrice: Float, lowestPrice(input: GpuLowestPriceInput): LowestPrice
  }
  type LowestPrice {
    uninterruptablePrice: Float, minimumBidPrice: Float, stockStatus: String, availableGpuCounts: [Int]
    maxUnreservedGpuCount: Int, minVcpu: Int, minMemory: Int, countryCode: String
  }
  type DataCenter { id: ID, name: String, location: String, listed: Boolean, gpuAvailability: [GpuAvailability] }
  type GpuAvailability { gpuTypeId: String, displayName: String, stockStatus: String, available: Boolean }
`),
  "DateTime",
);
