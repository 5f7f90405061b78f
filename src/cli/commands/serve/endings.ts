// Messages of `svc serve` at its end: why it ends, which runs and machines end with it, and what may be left.

import { runsHere } from "../../../providers/descriptors.ts";
import { hourly } from "../../../errors/index.ts";
import type { OpenControlPlane } from "../../../app/app.ts";
import type { JobRecord } from "../../../schemas/job.ts";
import { ACTIVE_STATUSES } from "../../../schemas/names.ts";

export type Ending = "SIGINT" | "SIGTERM" | "SIGHUP" | "eof" | "parent";

export const END_MS_MAX = 120_000;

export const some = (ids: string[]): string => `${ids.slice(0, 10).join(", ")}${ids.length > 10 ? ", …" : ""}`;

export const count = (n: number): string => `${n} ${n === 1 ? "run" : "runs"}`;

export function because(why: Ending): string {
  if (why === "eof") return "The last client has disconnected";
  if (why === "parent") return "The parent process has ended";
  return why === "SIGINT" ? "Interrupted" : `Got ${why}`;
}

export function activeIds(cp: OpenControlPlane, which: (job: JobRecord) => boolean = () => true): string[] {
  const live = ACTIVE_STATUSES.flatMap((status) => cp.reads.jobs({ status: [status], limit: 500 }).jobs);
  return [...new Set(live.filter(which).map((job) => job.id))];
}

export function whatEnds(cp: OpenControlPlane, ids: string[]): string {
  const rented = cp.reads
    .machines()
    .filter((m) => m.state !== "released" && !runsHere(m.provider) && ids.includes(m.job_id ?? ""));
  const machines =
    rented.length === 0 ? "" : ` and releasing ${rented.length} ${rented.length === 1 ? "machine" : "machines"}`;
  const graceSeconds = Math.max(0, ...ids.map((id) => Number(cp.reads.job(id)?.spec["stop_grace_seconds"] ?? 0)));
  const slowly = graceSeconds > 60 ? ` or a script uses its stop_grace_seconds (${graceSeconds})` : "";
  return `${count(ids.length)} (${some(ids)})${machines}; at most ${END_MS_MAX / 60_000} min, longer only while logs or checkpoints are downloading${slowly}. A second signal ends svc immediately; \`svc reconcile\` then finishes the rest.`;
}

/** Names runs that continue after the end of the control plane, and whether machines cost money meanwhile. */
export function whatStays(cp: OpenControlPlane, ids: string[]): string {
  const isRented = ids.some((id) => !runsHere(cp.reads.job(id)?.provider ?? ""));
  const money = isRented
    ? "Their rented machines cost money; `svc kill` ends them."
    : `${ids.length === 1 ? "It runs" : "They run"} on this computer and cost${ids.length === 1 ? "s" : ""} nothing.`;
  return `Still running, because terminate_on_exit is off: ${some(ids)}. ${money}`;
}

/** Describes what may still run or cost money. */
export function leftOver(cp: OpenControlPlane | null): string {
  if (!cp) return "Nothing was started.";
  try {
    const machines = cp.reads.machines().filter((m) => m.state !== "released");
    const ids = activeIds(cp);
    if (machines.length === 0 && ids.length === 0) return "Nothing is left running.";
    const names = machines.map(
      (m) => `${m.name} at ${m.provider}${m.price_per_hour_usd ? ` (${hourly(m.price_per_hour_usd)})` : ""}`,
    );
    return `Unfinished: runs ${ids.join(", ") || "none"}; machines ${names.join(", ") || "none"}. \`svc reconcile\` finishes them.`;
  } catch {
    return "The store could not be read, so runs or machines may be left; run `svc reconcile`.";
  }
}
