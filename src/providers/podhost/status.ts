// Interprets the answer about a pod. Its status only shows the request; the state of its container counts.

import type { MachineStatus } from "../provider.ts";
import type { Pod } from "./wire.ts";

const STOPPED = new Set(["EXITED", "TERMINATED", "DEAD", "PAUSED", "ERROR", "FAILED", "STOPPED"]);
const COMING = new Set(["CREATED", "PROVISIONING", "STARTING", "RESTARTING"]);

export function statusOf(pod: Pod): Exclude<MachineStatus, { phase: "gone" }> {
  const { priceMicro } = pod;
  // A stopped pod may be reported as running for a while after it has stopped.
  if (STOPPED.has(pod.status)) {
    const taken = /^outbid/i.test(pod.lastChange) ? ({ preempted: true } as const) : {};
    const stopped = { phase: "broken", why: whyStopped(pod), priceMicro, ...taken } as const;
    // It stopped before its container ever ran, and no person stopped it: another host may start it. Without a reason (its second
    // API gives none) that is possible as well. If the account's credit was the reason, the next order is refused for
    // it.
    const isMeant = pod.status === "TERMINATED" || /^(terminated by|exited by user|outbid)/i.test(pod.lastChange);
    return !pod.up && !isMeant ? { ...stopped, elsewhere: true } : stopped;
  }
  if (pod.id === null) return { phase: "broken", why: "the provider names it by an id that cannot be one", priceMicro };
  if (COMING.has(pod.status)) return { phase: "starting", why: `the provider says ${pod.status}`, priceMicro };
  if (!pod.up)
    return { phase: "starting", why: "its image is being fetched, or its container does not come up", priceMicro };
  if (pod.ssh === null) {
    const why = "its container runs, but no public way to port 22 is named that can be one";
    return { phase: "starting", why, priceMicro };
  }
  return {
    phase: "ready",
    address: pod.ssh.host,
    ssh: [pod.ssh],
    privateAddress: pod.privateAddress,
    priceMicro,
  };
}

function whyStopped({ status, lastChange }: Pod): string {
  if (/^terminated by/i.test(lastChange)) return "it was terminated, and the provider still lists it";
  if (/^outbid/i.test(lastChange)) return "another customer outbid this one";
  if (/^exited by user/i.test(lastChange)) return "a user stopped it";
  if (/^exited by/i.test(lastChange))
    return "the provider stopped it: the credit ran out, its image could not be fetched, or its host has trouble";
  return `the provider says ${status}${lastChange === "" ? ", and does not say why" : ""}`;
}
