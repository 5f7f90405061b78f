// The provider `cloudvm`: virtual machines of a public cloud, one API for all zones.
//
// C1. A handle names its project and zone, and keeps them when the settings change later.
// C2. "Not found" proves an end only for a machine whose end is in the zone's list of operations, whose deletion is
//     done, or that was made long enough ago; a young machine requires more: sightings.ts. A machine that is still
//     being created never counts as gone.
// C3. Machines are deleted only by a handle, whose name contains this installation's mark.

import { randomUUID } from "node:crypto";
import { endpointOf, idOf } from "../../domain/endpoint.ts";
import { SvcError } from "../../errors/index.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { faultOf } from "../boot-words.ts";
import { infoOf } from "../descriptors.ts";
import type { MachineAccess } from "../host.ts";
import { beforeSending } from "../http.ts";
import {
  inPart,
  type Account,
  type Certainty,
  type ForeignMachine,
  type MachineHandle,
  type MachineStatus,
  type Offer,
  type Order,
  type Provider,
} from "../provider.ts";
import { Recent } from "../recent.ts";
import type { RemoteOptions } from "../remote.ts";
import { Sightings } from "../sightings.ts";
import { BootSerial, serialOutput } from "./boot-serial.ts";
import { readKeyFile, type GoogleCredential } from "./auth.ts";
import { TokenSource } from "./tokens.ts";
import { ComputeClient, errorOf, isRateLimited, saysNotFound, type Reply } from "./client.ts";
import { brokenBy, endingsOf, takenBack, type Endings } from "./endings.ts";
import { failureOf, insert, SENT_WITHIN_MS, type Made } from "./insert.ts";
import { instanceBody, isInternal, ownerOf, powerOff } from "./instance-body.ts";
import { byUsefulness, gapOf, listInstances, shortOf, type Listed } from "./listing.ts";
import { placeFor, planFor, zonesIn, type Settings } from "./machine-types.ts";
import { noticeOf, spotOf } from "./notice.ts";
import { offersIn } from "./offers.ts";
import { instancePath, NAME, operationPath, type Place } from "./place.ts";
import { warningsOf } from "./warnings.ts";
import { Instance, lastPart, Operation, plainText, Region } from "./wire.ts";

const PROVIDER = "cloudvm";
const USER_DEFAULT = "svc";
/** A newly created machine may be missing from answers for this long: a margin of svc, not measured (November 2026). */
const LAG_MS = 120_000;
const LOOKS_APART_MS = 3_000;
const FULL_MS = 5 * 60_000;
/** A deletion takes a minute or more; the engine asks again anyway. */
const DELETE_LOOKS_MS = [150, 300, 600, 1_000, 1_500];
/** A deletion that takes longer than this is requested again. */
const DELETE_AGAIN_MS = 5 * 60_000;
const PROJECT = /^(?:[a-z0-9.-]{1,100}:)?[a-z][-a-z0-9]{0,62}$/;

/** One credential, ready to use. */
interface Session {
  account: GoogleCredential;
  client: ComputeClient;
  settings: Settings;
}

export class CloudvmProvider implements Provider {
  readonly name = PROVIDER;
  readonly info = infoOf("cloudvm");
  readonly certainty: Certainty = {
    // A request that has left may take effect for a minute more.
    horizonMs: SENT_WITHIN_MS + 60_000,
    listingLagMs: LAG_MS,
    emptyLooks: 2,
    lookGapMs: 10_000,
  };
  readonly #o: RemoteOptions;
  #session: (Session & { secret: string; baseUrl: string }) | null = null;
  readonly #sightings: Sightings;
  readonly #bootSerial: BootSerial;
  /** Offers that turned out to be taken recently. */
  readonly #full: Recent;
  /** Running deletions, by machine: they are watched instead of requested again. */
  readonly #deleting = new Map<string, { operation: string; since: number }>();

  constructor(options: RemoteOptions) {
    this.#o = options;
    this.#sightings = new Sightings(LAG_MS, options.now);
    this.#bootSerial = new BootSerial(options.now);
    this.#full = new Recent(FULL_MS, options.now);
  }

  check(spec: RunSpec): void {
    const settings = this.#settingsIfAny();
    planFor(spec, settings);
    if (spec.region !== undefined) placeFor(spec, settings);
  }

  async listOffers(spec: RunSpec, signal: AbortSignal): Promise<Offer[]> {
    const session = this.#open();
    projectOf(session);
    const plan = planFor(spec, session.settings);
    const place = placeFor(spec, session.settings);
    let zones = zonesIn(place.region, plan);
    if (zones.length === 0 && place.zone === null) zones = await this.#zonesOf(session, place.region, signal);
    await session.client.letIn(signal);
    if (place.zone !== null) zones = [place.zone, ...zones.filter((zone) => zone !== place.zone)];
    const offers = offersIn(zones, place.zone, spec, session.settings);
    // A zone that had no such machine a moment ago is tried last.
    return offers.toSorted((a, b) => Number(this.#full.has(a.id)) - Number(this.#full.has(b.id)));
  }

  async create(offer: Offer, order: Order): Promise<MachineHandle> {
    const session = this.#open();
    const { settings } = session;
    const place = { project: projectOf(session), zone: offer.extra?.["zone"] ?? offer.id.split(".")[0] ?? "" };
    const plan = planFor(order.spec, settings, offer.spot === true);
    const user = loginOf(settings).user;
    const publicKey = (await beforeSending(this.#o.publicKey())).trim();
    const handleOf = (made: Made): MachineHandle => ({
      v: 1,
      provider: PROVIDER,
      id: idOf(made.id) ?? order.name,
      name: order.name,
      address: null,
      priceMicro: null,
      extra: {
        ...place,
        ssh_user: user,
        ...(isInternal(settings) ? { addresses: "internal" } : {}),
        made_at_ms: String(this.#o.now()),
        ...(plan.provisioning === "SPOT" ? { spot: "yes" } : {}),
        ...(made.operation === null ? {} : { operation: made.operation }),
      },
    });
    const ports = { client: session.client, now: this.#o.now, pause: this.#o.pause };
    const body = instanceBody(order, plan, place, settings, { user, publicKey });
    const zoneAsked = offer.extra?.["asked"] === "yes";
    try {
      return handleOf(
        await insert(ports, { name: order.name, offerId: offer.id, place, plan, body, zoneAsked, handleOf }),
      );
    } catch (e) {
      if (e instanceof SvcError && e.code === "offer_taken") this.#full.add(offer.id);
      throw e;
    }
  }

  async inspect(handle: MachineHandle, signal: AbortSignal): Promise<MachineStatus> {
    const session = this.#open();
    const place = placeOf(handle, session);
    const reply = await session.client.send({ method: "GET", path: instancePath(place, handle.name), signal });
    if (!reply.ok) {
      if (!saysNotFound(reply, "instances")) throw errorOf(reply, `look at ${handle.name}`);
      return this.#missing(session, place, handle, signal);
    }
    const instance = Instance.safeParse(reply.body);
    if (!instance.success || instance.data.name !== handle.name)
      throw new SvcError("provider_error", {
        provider: PROVIDER,
        why: `its report about ${handle.name} cannot be read`,
      });
    this.#sightings.seen(keyOf(place, handle.name));
    const { status } = instance.data;
    // The text stays in the run's record: it must still be true after the machine is gone.
    const tell = async (words: string): Promise<MachineStatus> =>
      brokenBy(await this.#endings(session, place, handle, signal), handle, words);
    switch (status) {
      case "RUNNING": {
        const status = readyOrStarting(instance.data, handle, session.settings);
        const verdict = await this.#bootSerial.verdict(keyOf(place, handle.name), () =>
          serialOutput(session.client, place, handle.name, signal),
        );
        signal.throwIfAborted();
        if (verdict === null) return status;
        return { phase: "broken", why: `it cannot boot: ${verdict.why}`, ...faultOf(verdict, handle) };
      }
      case "STOPPING":
      case "DEPROVISIONING":
      case "PENDING_STOP":
        return tell("it is being stopped or deleted");
      case "TERMINATED":
      case "STOPPED":
        return tell("it is stopped: computing is billed no more, its disk until it is deleted");
      case "SUSPENDING":
      case "SUSPENDED":
        return tell("it is suspended: its memory and disk are billed until it is deleted");
      default:
        return { phase: "starting", why: status === "" ? "its state is not known" : `it is ${status.toLowerCase()}` };
    }
  }

  async terminate(handle: MachineHandle, signal: AbortSignal): Promise<void> {
    const session = this.#open();
    const place = placeOf(handle, session);
    const key = keyOf(place, handle.name);
    this.#bootSerial.over(key);
    let under = this.#deleting.get(key);
    if (under === undefined || this.#o.now() - under.since > DELETE_AGAIN_MS) {
      const reply = await session.client.send({
        method: "DELETE",
        path: instancePath(place, handle.name),
        query: { requestId: randomUUID() },
        signal,
      });
      if (!reply.ok) {
        if (saysNotFound(reply, "instances") || isOnItsWay(reply)) return;
        throw failedDelete(reply, handle.name);
      }
      const accepted = Operation.safeParse(reply.body);
      if (!accepted.success) return;
      this.#sightings.ending(key, true);
      if (accepted.data.status === "DONE") return this.#deletionDone(key, accepted.data);
      under = { operation: accepted.data.name, since: this.#o.now() };
      this.#deleting.set(key, under);
    }
    await this.#awaitDeletion(session, place, key, under.operation, signal);
  }

  async listOwned(prefix: string, signal: AbortSignal): Promise<MachineHandle[]> {
    const session = this.#open();
    const owner = ownerOf(prefix);
    const project = projectOf(session);
    const listing = await listInstances(session.client, project, owner, signal, this.#o.now);
    const owned = listing.found
      .filter(({ instance }) => isOurs(instance, prefix, owner))
      .toSorted(byUsefulness)
      .map((one) => this.#handleOf(one, project, session.settings));
    const short = shortOf(listing);
    if (short !== null) throw inPart(short, owned, gapOf(listing));
    return owned;
  }

  async listForeign(prefix: string, signal: AbortSignal): Promise<ForeignMachine[]> {
    const session = this.#open();
    const owner = ownerOf(prefix);
    const listing = await listInstances(session.client, projectOf(session), null, signal, this.#o.now);
    const short = shortOf(listing);
    if (short !== null) throw short;
    return listing.found
      .filter(({ instance }) => !isOurs(instance, prefix, owner))
      .map(({ instance, zone }) => {
        const name = NAME.test(instance.name) ? instance.name : null;
        return { id: idOf(instance.id) ?? (name === null ? zone : `${zone}.${name}`), name };
      });
  }

  async account(signal: AbortSignal): Promise<Account> {
    const session = this.#open();
    const project = projectOf(session);
    const name = `${project} (${session.account.email})`;
    const reply = await session.client.send({ method: "GET", path: `/projects/${project}`, signal });
    if (!reply.ok) {
      if (reply.status === 404 && reply.fromApi)
        throw new SvcError("credential_refused", {
          provider: PROVIDER,
          why: `it opens no project ${project}: ${reply.message}`,
        });
      const error = errorOf(reply, `read the project ${project}`);
      if (error.code === "provider_refused") return { name, balanceUsd: null, warnings: [error.message] };
      throw error;
    }
    return { name, balanceUsd: null, warnings: warningsOf(reply.body) };
  }

  /** A machine is looked up in its own project, whatever the settings are by now. */
  accountId(_signal: AbortSignal, handle?: MachineHandle): Promise<string> {
    const session = this.#open();
    return Promise.resolve(handle ? placeOf(handle, session).project : projectOf(session));
  }

  selfEnd(name: string): string {
    return powerOff(name);
  }

  readonly preemptionNotice = (handle: MachineHandle) => noticeOf(handle, this.#settingsIfAny());

  access(handle: MachineHandle): MachineAccess {
    return this.#o.access(handle);
  }

  #open(): Session {
    const { secret, settings } = this.#o.credential();
    const { baseUrl } = this.#o;
    if (this.#session?.secret !== secret || this.#session.baseUrl !== baseUrl) {
      const account = readKeyFile(secret);
      const client = new ComputeClient(baseUrl, new TokenSource(account, this.#o.now), this.#o.pause);
      this.#session = { secret, baseUrl, account, client, settings };
    }
    return { ...this.#session, settings };
  }

  #settingsIfAny(): Settings {
    try {
      return this.#o.credential().settings;
    } catch (e) {
      if (e instanceof SvcError) return {};
      throw e;
    }
  }

  async #zonesOf({ client, ...session }: Session, region: string, signal: AbortSignal): Promise<string[]> {
    const path = `/projects/${projectOf(session)}/regions/${region}`;
    const reply = await client.send({ method: "GET", path, signal });
    if (!reply.ok) {
      if (reply.fromApi && (reply.status === 404 || reply.status === 400))
        throw new SvcError(
          "provider_refused",
          { provider: PROVIDER, why: `it has no region ${region} (${reply.message})` },
          { errors: [{ field: "spec.region", message: `${region} does not exist` }] },
        );
      throw errorOf(reply, `read the region ${region}`);
    }
    const read = Region.safeParse(reply.body);
    return (read.success ? read.data.zones : []).map(lastPart).filter((zone) => NAME.test(zone));
  }

  unreachable(handle: MachineHandle): void {
    this.#sightings.silent(keyOf(placeOf(handle, this.#open()), handle.name));
  }

  /** C2 */
  async #missing(session: Session, place: Place, handle: MachineHandle, signal: AbortSignal): Promise<MachineStatus> {
    const endings = await this.#endings(session, place, handle, signal);
    // Some deployments answer "not found" to anything that a key may not see: if one list fails, another one has to
    // agree.
    if (endings === null && (await this.#isListed(session, place, handle, signal)))
      return { phase: "starting", why: "the provider lists it, but does not find it by its name" };
    const gone: MachineStatus = {
      phase: "gone",
      ...(endings?.why ? { why: endings.why } : {}),
      ...takenBack(endings),
    };
    if (endings?.ending)
      return (await this.#staysAway(session, place, handle, signal))
        ? gone
        : {
            phase: "broken",
            why: `${endings.why ?? "it was deleted"}; the deletion has not finished yet`,
            ...takenBack(endings),
          };
    if (endings?.ended) return gone;
    const key = keyOf(place, handle.name);
    const madeAt = Number(handle.extra?.["made_at_ms"] ?? Number.NaN);
    const doubt = this.#sightings.doubt(key, Number.isFinite(madeAt) ? madeAt : null, handle);
    if (doubt === null && this.#sightings.wasSeen(key)) return gone;
    const making = endings?.making ? "going on" : await this.#making(session, place, handle, signal);
    if (making === "going on") return { phase: "starting", why: "the provider is still making it" };
    if (making !== null) return { phase: "gone", why: `it could not be made: ${making}` };
    return doubt === null ? gone : { phase: "starting", why: doubt };
  }

  /**
   * An operation that never ends says nothing: two polls and a listing do, some seconds after the first one missed it.
   */
  async #staysAway(session: Session, place: Place, handle: MachineHandle, signal: AbortSignal): Promise<boolean> {
    await this.#o.pause(LOOKS_APART_MS, signal);
    const again = await session.client.send({ method: "GET", path: instancePath(place, handle.name), signal });
    return !again.ok && saysNotFound(again, "instances") && !(await this.#isListed(session, place, handle, signal));
  }

  async #isListed({ client }: Session, place: Place, handle: MachineHandle, signal: AbortSignal): Promise<boolean> {
    const listing = await listInstances(client, place.project, ownerOf(handle.name), signal, this.#o.now);
    const short = shortOf(listing, place.zone);
    if (short !== null) throw short;
    return listing.found.some(({ zone, instance }) => zone === place.zone && instance.name === handle.name);
  }

  /** The reason why its creation failed; null if nothing contradicts its existence. */
  async #making({ client }: Session, place: Place, handle: MachineHandle, signal: AbortSignal): Promise<string | null> {
    const operation = handle.extra?.["operation"];
    if (operation === undefined || idOf(operation) === null) return null;
    const path = operationPath(place, operation);
    const reply = await client.send({ method: "GET", path, signal });
    if (!reply.ok) {
      if (reply.status === 404 && reply.fromApi) return null;
      throw errorOf(reply, `look at how ${handle.name} is made`);
    }
    const read = Operation.safeParse(reply.body);
    if (!read.success || read.data.status !== "DONE") return "going on";
    const failure = failureOf(read.data);
    return failure === null ? null : plainText(`${failure[0]?.code ?? ""} ${failure[0]?.message ?? ""}`);
  }

  /** Null if the list is unavailable: it only explains, and decisions are made without it. */
  async #endings(
    { client, account }: Session,
    place: Place,
    handle: MachineHandle,
    signal: AbortSignal,
  ): Promise<Endings | null> {
    try {
      return await endingsOf(client, place, handle, account.email, signal, this.#o.now);
    } catch (e) {
      if (e instanceof SvcError && e.code === "provider_error") return null;
      throw e;
    }
  }

  async #awaitDeletion(
    { client }: Session,
    place: Place,
    key: string,
    operation: string,
    signal: AbortSignal,
  ): Promise<void> {
    const path = operationPath(place, operation);
    for (const waitMs of DELETE_LOOKS_MS) {
      const reply = await client.send({ method: "GET", path, signal });
      const read = reply.ok ? Operation.safeParse(reply.body) : null;
      // Done, failed or not found: if the machine still exists, the next call requests its end again.
      if (read?.success && read.data.status === "DONE") return this.#deletionDone(key, read.data);
      if (!reply.ok && reply.status === 404) return void this.#deleting.delete(key);
      await this.#o.pause(waitMs, signal);
    }
  }

  #deletionDone(key: string, operation: Operation): void {
    this.#deleting.delete(key);
    // Only an existing machine can be deleted.
    if (failureOf(operation) === null) this.#sightings.seen(key);
    else this.#sightings.ending(key, false);
  }

  #handleOf({ zone, instance }: Listed, project: string, settings: Settings): MachineHandle {
    this.#sightings.seen(keyOf({ project, zone }, instance.name));
    const nat = instance.networkInterfaces[0]?.accessConfigs?.[0]?.natIP;
    const ssh = endpointOf(nat, loginOf(settings).port, loginOf(settings).user);
    return {
      v: 1,
      provider: PROVIDER,
      id: idOf(instance.id) ?? instance.name,
      name: instance.name,
      address: ssh?.host ?? null,
      priceMicro: null,
      ...(ssh === null ? {} : { ssh: [ssh] }),
      // Its creation time is unknown by this computer's clock, but not later than now.
      extra: { project, zone, made_at_ms: String(this.#o.now()), ...spotOf(instance) },
    };
  }
}

function readyOrStarting(instance: Instance, handle: MachineHandle, settings: Settings): MachineStatus {
  const [nic] = instance.networkInterfaces;
  const natIp = nic?.accessConfigs?.find((config) => config.natIP)?.natIP;
  const reachedAt =
    natIp ?? (handle.extra?.["addresses"] === "internal" || isInternal(settings) ? nic?.networkIP : null);
  if (!reachedAt) return { phase: "starting", why: "it runs, and has no external address yet" };
  const { user, port } = loginOf(settings);
  const ssh = endpointOf(reachedAt, port, handle.extra?.["ssh_user"] ?? user);
  if (ssh === null) return { phase: "broken", why: "what the provider gives as its address cannot be one" };
  const inside = endpointOf(nic?.networkIP, port, user);
  return { phase: "ready", address: ssh.host, ssh: [ssh], privateAddress: inside?.host ?? null, priceMicro: null };
}

function loginOf(settings: Settings): { user: string; port: string } {
  const user = settings["ssh_user"]?.trim() || USER_DEFAULT;
  const port = settings["ssh_port"]?.trim() || "22";
  if (endpointOf("localhost", port, user) !== null) return { user, port };
  throw new SvcError("credential_missing", {
    provider: PROVIDER,
    missing: "ssh_user is not a user name, or ssh_port is not a port; leave them out for svc and 22",
  });
}

function projectOf({ account, settings }: Pick<Session, "account" | "settings">): string {
  const project = settings["project"]?.trim() || account.project;
  if (!project) throw new SvcError("credential_missing", { provider: PROVIDER, missing: "project is not set" });
  if (PROJECT.test(project)) return project;
  throw new SvcError("credential_missing", {
    provider: PROVIDER,
    missing: "project is not a project id; the console shows it next to the project's name",
  });
}

/** C1 */
function placeOf(handle: MachineHandle, session: Session): Place {
  const zone = handle.extra?.["zone"] ?? session.settings["zone"] ?? "";
  const project = handle.extra?.["project"] ?? projectOf(session);
  if (NAME.test(zone) && PROJECT.test(project) && NAME.test(handle.name)) return { project, zone };
  throw new SvcError("provider_error", { provider: PROVIDER, why: `where ${handle.name} stands is unknown` });
}

const keyOf = ({ project, zone }: Place, name: string): string => `${project}/${zone}/${name}`;

const isOurs = (instance: Instance, prefix: string, owner: string | null): boolean =>
  NAME.test(instance.name) &&
  instance.name.startsWith(prefix) &&
  (owner === null || instance.labels["svc-owner"] === owner);

const isOnItsWay = (reply: Reply & { ok: false }): boolean =>
  reply.reasons.some((reason) => /^(resourceNotReady|RESOURCE_NOT_READY)$/.test(reason));

/** Any obstacle to a deletion leads to a retry, so no error here says "never". */
function failedDelete(reply: Reply & { ok: false }, name: string): SvcError {
  const error = errorOf(reply, `delete ${name}`);
  if (error.retry === "backoff" || error.code === "credential_refused" || isRateLimited(reply)) return error;
  return new SvcError("provider_error", { provider: PROVIDER, why: `delete ${name}: ${reply.message}` });
}
