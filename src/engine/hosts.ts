// Stores a verdict per rented machine, and applies it to the offers of its provider. It decides nothing about a run: a failed write is
// reported, and the run continues.

import { AVOIDED_MS, agoWords, KEPT_MS, LEFT_OUT_MS } from "../domain/host-history.ts";
import type { Offer, Provider } from "../providers/provider.ts";
import type { HubPullHint } from "../schemas/hub.ts";
import type { FeedEvent, FeedHint } from "../schemas/job.ts";
import { HostStore } from "../store/host-store.ts";
import type { HostMemory, RentedMachine } from "../steps/ports.ts";
import { rentedMachine } from "../steps/rental/host-verdicts.ts";
import type { Engine } from "./engine.ts";
import type { DurableLedger } from "./ledger.ts";

const REASON_CHARACTERS_MAX = 300;
const NEVER_REACHED = "it could not be reached by SSH in time";

export interface HostParts {
  engine: Engine;
  ledger: DurableLedger;
  /** `gpus` of a job's spec. */
  gpusOf: (jobId: string) => string;
  report: (line: string) => void;
  /** Marks a list of offers with why others are not in it, after what it was marked with before. */
  without: (offers: Offer[], from: readonly Offer[], reasons: readonly string[]) => Offer[];
}

export class DurableHosts implements HostMemory {
  readonly #o: HostParts;
  readonly #rows: HostStore;

  constructor(parts: HostParts) {
    this.#o = parts;
    this.#rows = new HostStore(parts.engine.store.db);
  }

  good(machine: RentedMachine): Promise<void> {
    return this.#write(machine, "good", null);
  }

  bad(machine: RentedMachine, reason: string): Promise<void> {
    return this.#write(machine, "bad", reason.slice(0, REASON_CHARACTERS_MAX));
  }

  async #write(machine: RentedMachine, verdict: "good" | "bad", reason: string | null): Promise<void> {
    await this.#surely((at) => {
      const before = this.#rows.get(machine.name);
      if (before?.verdict === "bad" || before?.verdict === verdict) return;
      if (before !== undefined) return this.#rows.verdict(machine.name, verdict, reason, at);
      const { name, seconds, ...row } = machine;
      const boot_seconds = verdict === "good" ? seconds : null;
      this.#rows.insert({ ...row, machine: name, gpu_uuids: null, verdict, reason, boot_seconds, at });
      this.#rows.dropBefore(at - KEPT_MS);
    });
  }

  async gpus(machine: string, uuids: readonly string[]): Promise<string | null> {
    await this.#surely(() => this.#rows.gpus(machine, uuids));
    const now = this.#o.engine.clock.now();
    const provider = this.#rows.get(machine)?.provider;
    const bad = provider === undefined ? null : this.#rows.badGpu(provider, uuids, machine, now - AVOIDED_MS);
    if (bad === null) return null;
    return `a machine with one of its GPUs was unfit ${agoWords(now - bad.at)} ago: ${bad.reason ?? "no reason is known"}`;
  }

  /** Records a machine as bad that was not reachable before the time limit of its state ended the step. */
  heard(event: FeedEvent | FeedHint | HubPullHint): void {
    if (!("data" in event) || event.type !== "job.transition" || event.job_id === null) return;
    const { from, event: why } = event.data;
    if (from !== "awaiting_ssh" || why !== "timer.phase") return;
    const { ledger, engine, gpusOf } = this.#o;
    const jobId = event.job_id;
    for (const row of ledger.owed()) {
      if (row.job_id !== jobId || this.#rows.get(row.name) !== undefined) continue;
      const entry = ledger.open(jobId, row.node).find(({ name }) => name === row.name);
      const machine = entry === undefined ? null : rentedMachine(entry, gpusOf(jobId), engine.clock.now());
      if (machine !== null) void this.bad(machine, NEVER_REACHED);
    }
  }

  /** From now on the provider's offers on hosts that were bad are left out, or come last. */
  attendTo(provider: Provider): void {
    if (!provider.info.capabilities.owns_machine) return;
    const listOffers = provider.listOffers.bind(provider);
    const create = provider.create.bind(provider);
    provider.listOffers = async (spec, signal, use) => this.#sorted(provider.name, await listOffers(spec, signal, use));
    provider.create = async (offer, order) => {
      const handle = await create(offer, order);
      return offer.host === undefined ? handle : { ...handle, extra: { ...handle.extra, host: offer.host } };
    };
  }

  #sorted(provider: string, offers: Offer[]): Offer[] {
    if (!offers.some(({ host }) => host !== undefined)) return offers;
    const now = this.#o.engine.clock.now();
    const bad = new Map(this.#rows.badHosts(provider, now - AVOIDED_MS).map((host) => [host.host, host]));
    const reasons: string[] = [];
    const kept = offers.flatMap((offer) => {
      const known = offer.host === undefined ? undefined : bad.get(offer.host);
      if (known === undefined) return [offer];
      const words = `its host was unfit ${agoWords(now - known.at)} ago: ${known.reason ?? "no reason is known"}`;
      if (now - known.at >= LEFT_OUT_MS) return [{ ...offer, avoided: words }];
      reasons.push(`an offer was left out, for ${words}`);
      return [];
    });
    return this.#o.without(kept, offers, reasons);
  }

  async #surely(write: (at: number) => void): Promise<void> {
    await this.#o.engine
      .commit((tx) => write(tx.at))
      .catch((e: unknown) => this.#o.report(`The memory of hosts could not be written: ${String(e)}`));
  }
}
