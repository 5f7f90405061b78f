// Reads the memory of hosts: by SQL written out, as the other reads of open-reads.ts.

import { AVOIDED_MS, KEPT_MS } from "../domain/host-history.ts";
import type { HostStats } from "../schemas/hosts.ts";
import type { ProviderName } from "../schemas/spec.ts";
import type { All, HostVerdictRow } from "./tables.ts";

const ROWS_MAX = 20_000;

/** Newest first within the answer's lists of hosts; statistics by provider and GPU. */
export function readHostStats(all: All, now: number): HostStats {
  const rows = all<HostVerdictRow>(
    "SELECT * FROM host_verdict WHERE at >= ? ORDER BY at DESC LIMIT ?",
    now - KEPT_MS,
    ROWS_MAX,
  );
  const groups = new Map<string, HostVerdictRow[]>();
  const hosts = new Map<string, HostVerdictRow>();
  for (const row of rows) {
    const group = `${row.provider} ${row.gpu}`;
    groups.set(group, [...(groups.get(group) ?? []), row]);
    const host = `${row.provider} ${row.host}`;
    if (row.host !== null && !hosts.has(host)) hosts.set(host, row);
  }
  return {
    stats: [...groups.values()].map((group) => {
      const good = group.filter(({ verdict }) => verdict === "good");
      const { provider, gpu } = group[0] as HostVerdictRow;
      return {
        provider: provider as ProviderName,
        gpu,
        good: good.length,
        of: group.length,
        seconds_to_ssh_p50: median(good.flatMap(({ boot_seconds: seconds }) => (seconds === null ? [] : [seconds]))),
      };
    }),
    avoided: [...hosts.values()].flatMap(({ provider, host, gpu, verdict, reason, at }) =>
      verdict === "good" || host === null || at < now - AVOIDED_MS
        ? []
        : [
            {
              provider: provider as ProviderName,
              host,
              gpu,
              reason: reason ?? "",
              at: new Date(at).toISOString(),
              until: new Date(at + AVOIDED_MS).toISOString(),
            },
          ],
    ),
  };
}

function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  return middle === undefined ? null : Math.round(middle * 10) / 10;
}
