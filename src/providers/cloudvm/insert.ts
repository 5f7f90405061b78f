// Creates a machine. A repeated order is the same request; its result is in an operation, not in the answer.
//
// I1. An answer of 200 does not mean a machine: only an operation that is done without an error does.
// I2. A refusal counts as "nothing was made" only if no earlier sending of the same order is still in doubt.
// I3. After a failed operation, the machine is searched again before its absence is reported. If it still exists, the
//     error carries it: it is ended before the next offer is requested.

import { SvcError } from "../../errors/index.ts";
import { mayHaveBeenSent, neverSent } from "../http.ts";
import { inVain, type MachineHandle } from "../provider.ts";
import {
  errorOf,
  isQuota,
  isRateLimited,
  REQUEST_TIMEOUT_MS,
  RETRY_AFTER_MAX_MS,
  saysNotFound,
  zonesIn,
  type ComputeClient,
  type Refusal,
} from "./client.ts";
import { ownerOf, requestIdOf } from "./instance-body.ts";
import { CURRENT_FAMILIES, type MachinePlan } from "./machine-types.ts";
import { instancePath, operationPath, zonePath, type Place } from "./place.ts";
import { Instance, Operation, plainText, type OperationError } from "./wire.ts";

const PROVIDER = "cloudvm";
const SENDINGS = 3;
/** From the start until the last sending may begin, however long its token takes. */
const SEND_WITHIN_MS = 60_000;
/** From the start until the last request may have left: it may be delayed until it times out. */
export const SENT_WITHIN_MS = SEND_WITHIN_MS + REQUEST_TIMEOUT_MS;
const RESEND_MS = 1_000;
const OPERATION_MS = 3 * 60_000;
const LOOK_MS_MIN = 150;
const LOOK_MS_MAX = 3_000;
/** After this the machine itself is polled, too: once it has its resources, the operation adds nothing important. */
const LOOK_AT_MACHINE_AFTER_MS = 5_000;
/** A machine that could not be created may still be visible for some seconds. */
const VANISH_LOOKS = 8;

export interface InsertOrder {
  name: string;
  offerId: string;
  place: Place;
  plan: MachinePlan;
  body: Record<string, unknown>;
  /** Whether the owner named exactly this zone. */
  zoneAsked: boolean;
  handleOf: (made: Made) => MachineHandle;
}

export interface Made {
  id: string | null;
  /** Null if an existing machine was recognised as ours. */
  operation: string | null;
}

interface Ports {
  client: ComputeClient;
  now: () => number;
  pause: (ms: number, signal?: AbortSignal) => Promise<void>;
}

const unknownOutcome = (order: InsertOrder, cause?: unknown): SvcError =>
  new SvcError("outcome_unknown", { provider: PROVIDER, what: `create ${order.name}` }, { cause });

export async function insert(ports: Ports, order: InsertOrder): Promise<Made> {
  const accepted = await send(ports, order);
  if (!("status" in accepted)) return accepted;
  const operation = await untilDone(ports, order, accepted);
  const failure = operation.status === "DONE" ? failureOf(operation) : null;
  if (failure === null) return { id: operation.targetId ?? accepted.targetId ?? null, operation: operation.name };
  const refusal = failedOperation(failure, order);
  const made = { id: operation.targetId ?? accepted.targetId ?? null, operation: operation.name };
  throw (await isAbsent(ports, order)) ? refusal : inVain(refusal, order.handleOf(made));
}

/** Returns the operation, or an existing machine. */
async function send({ client, now, pause }: Ports, order: InsertOrder): Promise<Operation | Made> {
  const request = {
    method: "POST",
    path: `${zonePath(order.place)}/instances`,
    query: { requestId: requestIdOf(order.name, order.place.zone) },
    json: order.body,
  } as const;
  let doubt: unknown = null;
  let last: SvcError = unknownOutcome(order);
  let askedMs = 0;
  const until = now() + SEND_WITHIN_MS;
  for (let sending = 0; sending < SENDINGS; sending++) {
    if (sending > 0) await pause(Math.max(RESEND_MS * sending, Math.min(askedMs, RETRY_AFTER_MAX_MS)));
    if (now() >= until) break;
    askedMs = 0;
    let reply;
    try {
      reply = await client.once(request, () => now() >= until);
    } catch (e) {
      if (!(e instanceof SvcError)) throw e;
      if (mayHaveBeenSent(e)) doubt = e;
      else if (e.code !== "provider_unreachable" && e.code !== "provider_error")
        throw doubt === null ? e : unknownOutcome(order, e);
      last = e;
      continue;
    }
    if (reply.ok) {
      const operation = Operation.safeParse(reply.body);
      if (operation.success) return operation.data;
      doubt = operation.error;
      continue;
    }
    askedMs = reply.retryAfterMs ?? 0;
    const isTaken = reply.reasons.some((r) => /^(alreadyExists|ALREADY_EXISTS)$/.test(r));
    if (isTaken || (reply.status === 409 && reply.fromApi))
      return adopt(client, order, { inDoubt: doubt !== null, conflict: isTaken ? null : reply.message });
    const refused = refusedInsert(reply, order);
    if (refused === "passing") last = neverSent(errorOf(reply, `create ${order.name}`));
    else if (refused === "in doubt") doubt = errorOf(reply, `create ${order.name}`);
    else throw doubt === null ? refused : unknownOutcome(order, refused);
  }
  throw doubt === null ? last : unknownOutcome(order, doubt);
}

/**
 * The name is taken. Names are never reused, so it belongs to this order, sent before, unless its labels say otherwise.
 * @param conflict the provider's message if it names a conflict other than the name: without a machine of that name it
 * is a refusal
 */
async function adopt(
  client: ComputeClient,
  order: InsertOrder,
  { inDoubt, conflict }: { inDoubt: boolean; conflict: string | null },
): Promise<Made> {
  const reply = await client.send({ method: "GET", path: instancePath(order.place, order.name) });
  if (!reply.ok && conflict !== null && !inDoubt && saysNotFound(reply, "instances")) throw refused(conflict, order);
  const instance = reply.ok ? Instance.safeParse(reply.body) : null;
  if (!instance?.success) throw unknownOutcome(order);
  if (instance.data.labels["svc-owner"] === ownerOf(order.name))
    return { id: instance.data.id ?? null, operation: null };
  if (inDoubt) throw unknownOutcome(order);
  throw new SvcError("provider_refused", {
    provider: PROVIDER,
    why: `there is a machine ${order.name} already, and it does not bear the mark of this installation`,
  });
}

async function untilDone({ client, now, pause }: Ports, order: InsertOrder, accepted: Operation): Promise<Operation> {
  const until = now() + OPERATION_MS;
  let operation = accepted;
  let waited = 0;
  for (let wait = LOOK_MS_MIN; operation.status !== "DONE"; wait = Math.min(wait * 1.4, LOOK_MS_MAX)) {
    if (waited >= OPERATION_MS || now() >= until) break;
    await pause(wait);
    waited += wait;
    operation = (await lookAt(client, order.place, accepted.name)) ?? operation;
    if (waited > LOOK_AT_MACHINE_AFTER_MS && operation.status !== "DONE" && (await hasResources(client, order))) break;
  }
  return operation;
}

/** Null if nothing can be learned at the moment: it is polled again. */
async function lookAt(client: ComputeClient, place: Place, name: string): Promise<Operation | null> {
  try {
    const reply = await client.once({ method: "GET", path: operationPath(place, name) });
    const operation = reply.ok ? Operation.safeParse(reply.body) : null;
    return operation?.success ? operation.data : null;
  } catch (e) {
    if (e instanceof SvcError) return null;
    throw e;
  }
}

/** While it is PROVISIONING it may still fail for lack of capacity; later states have their resources. */
async function hasResources(client: ComputeClient, order: InsertOrder): Promise<boolean> {
  try {
    const reply = await client.once({ method: "GET", path: instancePath(order.place, order.name) });
    const instance = reply.ok ? Instance.safeParse(reply.body) : null;
    return instance?.success === true && /^(STAGING|RUNNING)$/.test(instance.data.status);
  } catch (e) {
    if (e instanceof SvcError) return false;
    throw e;
  }
}

export function failureOf(operation: Operation): OperationError[] | null {
  if (operation.error !== null)
    return operation.error.errors.length > 0
      ? operation.error.errors
      : [{ code: undefined, message: operation.httpErrorMessage ?? "no reason was given", errorDetails: [] }];
  if ((operation.httpErrorStatusCode ?? 0) < 400) return null;
  return [
    { code: undefined, message: operation.httpErrorMessage ?? `${operation.httpErrorStatusCode}`, errorDetails: [] },
  ];
}

/** I3 */
async function isAbsent({ client, pause }: Ports, order: InsertOrder): Promise<boolean> {
  const path = instancePath(order.place, order.name);
  for (let look = 0; look < VANISH_LOOKS; look++) {
    if (look > 0) await pause(300 * look);
    try {
      const reply = await client.once({ method: "GET", path });
      if (!reply.ok && saysNotFound(reply, "instances")) return true;
    } catch (e) {
      if (!(e instanceof SvcError)) throw e;
    }
  }
  return false;
}

const STOCKOUT =
  /^(ZONE_RESOURCE_POOL_EXHAUSTED(_WITH_DETAILS)?|RESOURCE_POOL_EXHAUSTED|insufficientCapacity|GPU_STOCKOUT|UNSUPPORTED_OPERATION|VM_MIN_COUNT_NOT_REACHED|CONFLICT|resource_availability|stockout)$/i;

function failedOperation(errors: OperationError[], order: InsertOrder): SvcError {
  const codes = errors.map((e) => e.code ?? "");
  const first = errors[0];
  const words = plainText(first?.message ?? "") || "no reason was given";
  const as = (pattern: RegExp): OperationError | undefined => errors.find((e) => pattern.test(e.code ?? ""));
  const stockout = as(STOCKOUT);
  if (stockout) return taken(order, stockoutWords(stockout, order));
  const quota = as(/^(QUOTA_EXCEEDED|quotaExceeded)$/);
  if (quota) return new SvcError("no_quota", { provider: PROVIDER, why: quotaWords(quota) });
  if (as(/^(RESOURCE_NOT_FOUND|notFound|NOT_FOUND)$/)) return notThere(words, order);
  if (
    as(
      /^(RESOURCE_NOT_READY|resourceNotReady|RESOURCE_OPERATION_RATE_EXCEEDED|rateLimitExceeded|INTERNAL_ERROR|BACKEND_ERROR|backendError|internalError|SERVICE_UNAVAILABLE)$/,
    )
  )
    return taken(order, `${codes.join(", ")}: ${words}`);
  const code = codes.filter(Boolean).join(", ");
  return refused(`${code === "" ? "" : `${code}: `}${words}`, order);
}

const taken = (order: InsertOrder, why: string): SvcError =>
  new SvcError("offer_taken", { provider: PROVIDER, offer: order.offerId, why: withTerms(why, order) });

const refused = (why: string, order: InsertOrder): SvcError =>
  new SvcError("provider_refused", { provider: PROVIDER, why: withTerms(why, order) });

const nearWords = ({ plan: { near } }: InsertOrder): string =>
  near.length === 0 ? "" : `. Names near to it that it knows: ${near.join(", ")}`;

const withTerms = (why: string, { plan }: InsertOrder): string =>
  plan.terms === null ? why : `${why} (${plan.terms})`;

function stockoutWords(error: OperationError, order: InsertOrder): string {
  const { errorDetails, message = "" } = error;
  const localized = errorDetails.map((d) => d.localizedMessage?.message ?? "").find((words) => words !== "") ?? "";
  const words = plainText(message === "" ? localized : message);
  const zones = errorDetails.map((d) => zonesIn(d.errorInfo?.metadatas)).find((named) => named !== null) ?? null;
  return noneLeft(order, [plainText(error.code ?? "", 80), words].filter(Boolean).join(": "), zones);
}

const noneLeft = ({ place }: InsertOrder, words: string, zones: string | null): string =>
  `the zone ${place.zone} has none left${words === "" ? "" : ` (${words})`}${zones === null ? "" : `; it says that ${zones} have it`}`;

function quotaWords(error: OperationError): string {
  const info = error.errorDetails.find((d) => d.quotaInfo)?.quotaInfo;
  const limit = info?.limit === undefined ? "" : `, whose limit is ${plainText(String(info.limit), 30)}`;
  const where = Object.values(info?.dimensions ?? {}).filter((v) => typeof v === "string");
  const name = info?.limitName ?? info?.metricName;
  const metric =
    name === undefined
      ? ""
      : `quota ${plainText(name, 100)}${where.length ? ` in ${plainText(where.join(", "), 100)}` : ""}${limit}`;
  const words = plainText(error.message ?? "");
  const all = /GPUS[-_]ALL[-_]REGIONS/i.test(`${words} ${name ?? ""}`)
    ? "; new projects have a quota of 0 GPUs until you request more"
    : "";
  return `${[metric, words].filter(Boolean).join(": ") || "quota exceeded"}${all}`;
}

/** `passing`: the request had no effect and may be sent again. `in doubt`: it may have had an effect. */
function refusedInsert(reply: Refusal, order: InsertOrder): SvcError | "passing" | "in doubt" {
  const has = (pattern: RegExp): boolean => reply.reasons.some((reason) => pattern.test(reason));
  if (!reply.fromApi) return reply.status === 404 || reply.status === 405 ? errorOf(reply, "create") : "in doubt";
  if (has(STOCKOUT)) return taken(order, noneLeft(order, reply.message, reply.zonesAvailable));
  if (isRateLimited(reply) || has(/^(resourceNotReady|RESOURCE_NOT_READY)$/)) return "passing";
  if (isQuota(reply))
    return new SvcError("no_quota", {
      provider: PROVIDER,
      why: quotaWords({ code: undefined, message: reply.message, errorDetails: [] }),
    });
  if (reply.status >= 500 || reply.status < 400 || reply.status === 408) return "in doubt";
  if (reply.status === 404 || /does not exist|not found/i.test(reply.message)) return notThere(reply.message, order);
  if (reply.status === 401 || reply.status === 403) return errorOf(reply, `create ${order.name}`);
  if (reply.status === 412) return refused(`a policy of the organisation forbids it: ${reply.message}`, order);
  return refused(reply.message, order);
}

function notThere(words: string, order: InsertOrder): SvcError {
  const { zone } = order.place;
  if (/images?\/family|image family|images\//i.test(words))
    return refused(
      `the image ${order.plan.image} does not exist (any more): ${words}. Set image to a current family: ${CURRENT_FAMILIES.join(", ")}`,
      order,
    );
  if (/machine ?types?|accelerator ?types?|disk ?types?/i.test(words))
    return order.plan.known
      ? taken(order, `the zone ${zone} does not have it: ${words}`)
      : refused(`${words}${nearWords(order)}`, order);
  if (/zones?\b|location/i.test(words) && !/instances|networks/i.test(words) && !order.zoneAsked)
    return taken(order, `the zone ${zone} is not open to this project: ${words}`);
  return refused(words, order);
}
