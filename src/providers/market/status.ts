// Translates the provider's state of one machine.

import { firstChars } from "../../domain/terminal-text.ts";
import { endpointOf, type SshEndpoint } from "../../domain/endpoint.ts";
import { rentMicroOf } from "../../domain/money.ts";
import { bootVerdict, faultOf } from "../boot-words.ts";
import type { MachineStatus } from "../provider.ts";
import { providerLine } from "./refusals.ts";
import { numberOf, textOf, type InstanceRow } from "./wire.ts";

/** States in which the provider bills the disk alone. A machine in any other state may cost its full price. */
const DISK_ALONE: ReadonlySet<string> = new Set(["", "created", "loading", "scheduling"]);
const STARTING: Readonly<Record<string, string>> = {
  "": "being provisioned",
  created: "its container is made and not yet started",
  loading: "loading its image",
  rebooting: "rebooting",
  recycling: "its container is being recreated",
  scheduling: "waiting to be scheduled",
};
/** States that often pass by themselves: see `MarketProvider.inspect`. */
export const SHAKY: ReadonlySet<string> = new Set(["offline", "unknown", "frozen"]);
const BROKEN: Readonly<Record<string, string>> = {
  exited: "its container has exited",
  stopped: "it was stopped",
  offline: "its host is disconnected",
  unknown: "its host sends no sign of life",
  frozen: "it is frozen",
  destroyed: "it is being destroyed",
};

/** The provider's own word for the state; empty while it has none. */
export const actualStatus = (row: InstanceRow): string => textOf(row.actual_status).toLowerCase();

/**
 * A bid that was beaten: the marketplace halts the machine, keeps its disk billed, and starts the container again by itself once the bid
 * is the highest again. Processes do not survive that, so a halted machine is never waited for.
 */
function isOutbid(row: InstanceRow): boolean {
  return row.is_bid === true && textOf(row.cur_state).toLowerCase() === "stopped";
}

export function statusOf(row: InstanceRow, nowMs: number): MachineStatus {
  const priceMicro = rentMicroOf(row.dph_total);
  const actual = actualStatus(row);
  const message = providerLine(textOf(row.status_msg));
  const said = message === "" ? "" : ` (${message})`;
  const broken = (why: string): MachineStatus & { phase: "broken" } => ({ phase: "broken", why, priceMicro });
  if (textOf(row.cur_state).toLowerCase() === "unloaded") return broken("it is being destroyed");
  const outbid = isOutbid(row);
  if (
    outbid ||
    [row.cur_state, row.next_state, row.intended_status].every((state) => textOf(state).toLowerCase() === "stopped")
  ) {
    const end = numberOf(row.end_date);
    if (end !== null && end * 1000 <= nowMs) return broken("its rental has reached its end date");
    if (outbid)
      return {
        ...broken(`it was outbid, or the account's credit is used up: the provider stopped it${said}`),
        preempted: true,
      };
    // If the credit was the reason, the next order is refused for it.
    return {
      ...broken(`the provider stopped it: the account's credit is used up, or it was outbid${said}`),
      elsewhere: true,
    };
  }
  if (actual === "running") {
    const ssh = endpointsOf(row);
    if (ssh.length === 0)
      return { phase: "starting", why: "running, but no usable address for SSH is known yet", priceMicro };
    return { phase: "ready", address: ssh[0]?.host ?? null, ssh, priceMicro };
  }
  const verdict = bootVerdict(message);
  if (verdict !== null) return { ...broken(`it cannot start: ${verdict.why}`), ...faultOf(verdict) };
  const wait = STARTING[actual];
  const price = DISK_ALONE.has(actual) ? ({ cheaper: true } as const) : { priceMicro };
  if (wait !== undefined) return { phase: "starting", why: `${wait}${said}`, ...price };
  const end = BROKEN[actual];
  if (end !== undefined) return broken(`${end}${said}`);
  // An unknown state says neither that it works nor that it is lost.
  return { phase: "starting", why: `in the state ${firstChars(providerLine(actual), 40)}${said}`, ...price };
}

/** The machine's direct address first, then the provider's proxy. The two addresses are never mixed. */
export function endpointsOf(row: InstanceRow): SshEndpoint[] {
  const direct = mappedPorts(row.ports).map((port) => endpointOf(textOf(row.public_ipaddr), port, "root"));
  const port = numberOf(row.ssh_port);
  const shift = textOf(row.image_runtype).includes("jupyter") ? 1 : 0;
  const proxy = port === null ? null : endpointOf(textOf(row.ssh_host), port + shift, "root");
  const ways = [...direct, proxy].filter((way) => way !== null);
  return ways.filter((way, i) => ways.findIndex((other) => other.host === way.host && other.port === way.port) === i);
}

function mappedPorts(ports: unknown): unknown[] {
  const list = typeof ports === "object" && ports !== null ? (ports as Record<string, unknown>)["22/tcp"] : undefined;
  if (!Array.isArray(list)) return [];
  return list.map((entry: unknown) =>
    typeof entry === "object" && entry !== null ? (entry as Record<string, unknown>).HostPort : undefined,
  );
}
