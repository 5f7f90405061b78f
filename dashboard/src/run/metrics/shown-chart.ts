// Decides which metrics share a chart, and names it. Each metric of a script has its own chart; the machine's measurements
// have names for people, and those of several GPUs are lines of one chart.

import { ownValue } from "../../../../src/domain/own-value.ts";

export interface ShownChart {
  /** The first member: the unit and the place on the page follow its name. */
  name: string;
  title: string;
  members: readonly Member[];
}

export interface Member {
  name: string;
  /** The part of the name that distinguishes the line from the others of its chart; null for the only one. */
  label: string | null;
}

const GPU = /^system\/gpu(\d+)_(.+)$/;

const TITLES: Readonly<Record<string, string>> = {
  "system/cpu_cores": "CPU cores in use",
  "system/memory_bytes": "Memory",
  "system/disk_bytes_per_s": "Disk traffic",
  "system/net_bytes_per_s": "Network traffic",
  "system/gpu*_util_percent": "GPU utilisation",
  "system/gpu*_memory_mib": "GPU memory",
  "system/gpu*_power_watts": "GPU power",
};

const keyOf = (name: string): string => name.replace(GPU, "system/gpu*_$2");
export const titleOfMetric = (name: string): string => ownValue(TITLES, keyOf(name)) ?? name;

/** One chart per metric, in the order of their names; the GPUs of a machine share one. */
export function chartsOf(names: readonly string[]): ShownChart[] {
  const together = Map.groupBy(names, keyOf);
  return [...together].map(([key, members]) => ({
    name: members[0] ?? key,
    title: titleOfMetric(members[0] ?? key),
    members: members.map((name) => ({
      name,
      label: members.length > 1 ? `GPU ${GPU.exec(name)?.[1] ?? ""}` : null,
    })),
  }));
}

/** A share in percent has an axis from 0 to 100, so that half of the height is half of the GPU. */
export const isShare = (name: string): boolean => /^system\/gpu\d+_util_percent$/.test(name);

/** Measurements of the machine, which the script did not log. */
export const isSystem = (name: string): boolean => /^(system|sys|machine|gpu|cpu)[./]/.test(name);
