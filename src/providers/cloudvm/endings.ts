// Why a machine is going or gone: the zone keeps a list of what was done to it, by whom.

import { SvcError } from "../../errors/index.ts";
import { errorOf, type ComputeClient } from "./client.ts";
import { zonePath, type Place } from "./place.ts";
import { lastPart, Operation, OperationList, plainText } from "./wire.ts";

const PAGES_MAX = 4;

/** What ended a machine; the words are for people. */
const ENDINGS: Readonly<Record<string, string>> = {
  "compute.instances.preempted": "it was preempted: the provider took it back",
  "compute.instances.deferredDelete": "it reached its time limit and the provider deleted it",
  "compute.instances.deferredStop": "it reached its time limit and the provider stopped it",
  "compute.instances.guestTerminate": "it was powered off from inside",
  "compute.instances.hostError": "the provider's hardware failed",
};
const REMOVES: ReadonlySet<string> = new Set([
  "delete",
  "compute.instances.deferredDelete",
  "compute.instances.preempted",
]);
const BY_SOMEBODY: Readonly<Record<string, string>> = { delete: "deleted", stop: "stopped", suspend: "suspended" };

export interface Endings {
  /** Null where the list does not tell. */
  why: string | null;
  /** An operation that ends the machine and is over: it did exist. */
  ended: boolean;
  /** One that is still going on, and leaves nothing of it. */
  ending: boolean;
  /** It is still being made. */
  making: boolean;
}

/** Asks for the operations on one machine. Throws where they cannot be had. */
export async function endingsOf(
  client: ComputeClient,
  { project, zone }: Place,
  machine: { name: string; id: string },
  ownEmail: string,
  signal: AbortSignal,
): Promise<Endings> {
  const mine = (await operationsOf(client, { project, zone }, machine, signal)).toSorted(byTime);
  const endings = mine.filter(({ operationType: type = "" }) => type in ENDINGS || type in BY_SOMEBODY);
  // The first one is the cause; a deletion that follows is how the remains are cleared away.
  const first = endings[0];
  return {
    why: first === undefined ? null : wordsOf(first, ownEmail),
    ended: endings.some((operation) => operation.status === "DONE" && operation.error === null),
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
): Promise<Operation[]> {
  const path = `${zonePath(place)}/operations`;
  const numeric = /^[0-9]+$/.test(machine.id);
  let filter: string | undefined = numeric ? `targetId=${machine.id}` : undefined;
  const mine: Operation[] = [];
  let pageToken: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const query = {
      filter,
      orderBy: filter === undefined ? "creationTimestamp desc" : undefined,
      maxResults: 500,
      pageToken,
    };
    const reply = await client.send({ method: "GET", path, query, signal });
    if (!reply.ok) {
      // Not every form of the filter is understood everywhere.
      if (reply.status !== 400 || filter === undefined) throw errorOf(reply, `list the operations of ${place.zone}`);
      filter = undefined;
      continue;
    }
    const list = OperationList.safeParse(reply.body);
    if (!list.success)
      throw new SvcError("provider_error", {
        provider: "cloudvm",
        why: `its operations of ${place.zone} cannot be read`,
      });
    for (const item of list.data.items ?? []) {
      const operation = Operation.safeParse(item);
      if (operation.success && isOn(operation.data, machine)) mine.push(operation.data);
    }
    pageToken = list.data.nextPageToken;
    if (!pageToken) break;
  }
  return mine;
}

const isOn = ({ targetId, targetLink }: Operation, machine: { name: string; id: string }): boolean =>
  targetId === machine.id ||
  (targetLink !== undefined && /\/instances\//.test(targetLink) && lastPart(targetLink) === machine.name);
