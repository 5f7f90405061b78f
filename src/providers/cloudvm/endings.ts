// Finds why a machine is being deleted or is gone: the zone keeps a list of operations on it, with their authors.

import { SvcError } from "../../errors/index.ts";
import { neverReached, type MachineHandle, type MachineStatus } from "../provider.ts";
import { readList, type List } from "../paging.ts";
import { errorOf, type ComputeClient } from "./client.ts";
import { zonePath, type Place } from "./place.ts";
import { lastPart, Operation, OperationList, plainText } from "./wire.ts";

const PAGES_MAX = 4;
const PREEMPTED = "compute.instances.preempted";

/** Operations that end a machine; the texts are for people. */
const ENDINGS: Readonly<Record<string, string>> = {
  [PREEMPTED]: "it was preempted: the provider took it back",
  "compute.instances.deferredDelete": "it reached its time limit and the provider deleted it",
  "compute.instances.deferredStop": "it reached its time limit and the provider stopped it",
  "compute.instances.guestTerminate": "it was powered off from inside",
  "compute.instances.hostError": "the provider's hardware failed",
};
const BY_ITSELF: ReadonlySet<string> = new Set(["compute.instances.guestTerminate", "compute.instances.hostError"]);
const REMOVES: ReadonlySet<string> = new Set(["delete", "compute.instances.deferredDelete", PREEMPTED]);
const BY_SOMEBODY: Readonly<Record<string, string>> = { delete: "deleted", stop: "stopped", suspend: "suspended" };

export interface Endings {
  /** Null if the list does not show it. */
  why: string | null;
  /** The provider's preemption ended it, before anything else did. */
  preempted: boolean;
  /** Its guest or its hardware ended it, or the list does not show what did: a machine elsewhere may work. */
  byItself: boolean;
  /** A finished operation that removed the machine completely: it proves that the machine existed. */
  ended: boolean;
  /** An operation that removes the machine completely is still running. */
  ending: boolean;
  /** It is still being created. */
  making: boolean;
}

export const takenBack = (endings: Endings | null): { preempted?: true } =>
  endings?.preempted ? { preempted: true } : {};

/** The status of a machine that is stopped or going; `words` describe its present state. */
export function brokenBy(endings: Endings | null, handle: MachineHandle, words: string): MachineStatus {
  const why = endings?.why ?? null;
  const fails = endings === null || endings.byItself ? neverReached(handle) : {};
  return { phase: "broken", why: why === null ? words : `${why}; ${words}`, ...fails, ...takenBack(endings) };
}

/**
 * Requests the operations on one machine. Throws if their list is missing, or incomplete without an end of the machine.
 */
export async function endingsOf(
  client: ComputeClient,
  { project, zone }: Place,
  machine: { name: string; id: string },
  ownEmail: string,
  signal: AbortSignal,
  now: () => number,
): Promise<Endings> {
  const { rows, missing } = await operationsOf(client, { project, zone }, machine, signal, now);
  const mine = rows
    .map((row) => Operation.safeParse(row))
    .flatMap(({ data }) => (data !== undefined && isOn(data, machine) ? [data] : []))
    .toSorted(byTime);
  const endings = mine.filter(({ operationType: type = "" }) => type in ENDINGS || type in BY_SOMEBODY);
  // A listed operation took place. An empty list proves something only if it is complete.
  if (missing !== null && endings.length === 0) throw missing;
  // The first one is the cause; a later deletion only clears the remains.
  const first = endings[0];
  return {
    why: first === undefined ? null : wordsOf(first, ownEmail),
    preempted: first?.operationType === PREEMPTED,
    byItself: first === undefined || BY_ITSELF.has(first.operationType ?? ""),
    ended: endings.some(
      ({ operationType: type = "", status, error }) => REMOVES.has(type) && status === "DONE" && error === null,
    ),
    ending: endings.some(({ operationType: type = "", status }) => REMOVES.has(type) && status !== "DONE"),
    making: mine.some((operation) => operation.operationType === "insert" && operation.status !== "DONE"),
  };
}

function wordsOf({ operationType: type = "", user }: Operation, ownEmail: string): string {
  const words = ENDINGS[type];
  if (words !== undefined) return words;
  const who =
    user === undefined || user === "" ? "somebody" : user === ownEmail ? "this account's key" : plainText(user, 100);
  return `it was ${BY_SOMEBODY[type] ?? "ended"} by ${who}`;
}

const byTime = (a: Operation, b: Operation): number => (a.insertTime ?? "").localeCompare(b.insertTime ?? "");

async function operationsOf(
  client: ComputeClient,
  place: Place,
  machine: { name: string; id: string },
  signal: AbortSignal,
  now: () => number,
): Promise<List<unknown>> {
  const path = `${zonePath(place)}/operations`;
  const numeric = /^[0-9]+$/.test(machine.id);
  let filter: string | undefined = numeric ? `targetId=${machine.id}` : undefined;
  let pages = 0;
  return readList<unknown>({
    provider: "cloudvm",
    what: `list of operations in ${place.zone}`,
    path,
    content: ["kind", "id", "items", "selfLink", "etag"],
    cursorParameter: "pageToken",
    provesAbsence: false,
    now,
    ask: async (page) => {
      if ((pages += 1) > PAGES_MAX) throw unreadable(place, `has more than ${PAGES_MAX} pages`);
      const ask = () => {
        const orderBy = filter === undefined ? "creationTimestamp desc" : undefined;
        return client.send({ method: "GET", path, query: { filter, orderBy, maxResults: 500, ...page }, signal });
      };
      let reply = await ask();
      if (!reply.ok && reply.status === 400 && filter !== undefined && pages === 1) {
        // Not every deployment understands every form of the filter.
        filter = undefined;
        reply = await ask();
      }
      if (!reply.ok) throw errorOf(reply, `list the operations of ${place.zone}`);
      return { status: reply.status, body: reply.body, headers: {} };
    },
    rows: (body) => {
      const list = OperationList.safeParse(body);
      if (!list.success) throw unreadable(place, "cannot be read");
      return list.data.items ?? [];
    },
    key: (row) => JSON.stringify(row),
  });
}

const unreadable = ({ zone }: Place, why: string): SvcError =>
  new SvcError("provider_error", { provider: "cloudvm", why: `its list of operations in ${zone} ${why}` });

const isOn = ({ targetId, targetLink }: Operation, machine: { name: string; id: string }): boolean =>
  targetId === machine.id ||
  (targetLink !== undefined && /\/instances\//.test(targetLink) && lastPart(targetLink) === machine.name);
