// A provider that lives in memory and misbehaves when told to.

import type { MachineHandle, MachineStatus, Offer, Order, Provider } from "../../src/providers/provider.ts";
import type { MachineAccess } from "../../src/providers/host.ts";
import { SvcError } from "../../src/errors/index.ts";

export const down = () => new SvcError("provider_error", { provider: "podhost", why: "it does not answer" });

export class SmallCloud implements Provider {
  readonly name = "podhost" as const;
  readonly info = {
    name: "podhost" as const,
    speaks: "memory",
    capabilities: {
      runs_here: false,
      bills: true,
      gpus: "optional" as const,
      owns_machine: true,
      reports_price: true,
      nodes_max: 4,
      self_end: true,
      list_by_tag: true,
      spot: false,
    },
    stops_by_itself: "never",
  };
  certainty = { horizonMs: 60_000, listingLagMs: 10_000, emptyLooks: 2, lookGapMs: 5_000 };
  offers: Offer[] = [{ id: "small", priceMicro: 1_000_000 }];
  /** The machines that really exist. */
  machines: MachineHandle[] = [];
  /** Every request, as text. */
  readonly calls: string[] = [];
  /** Called with each request before it takes effect; may throw to refuse it. */
  before: (call: string) => void | Promise<void> = () => {};
  /** Called after a machine was made, before the answer leaves; may throw to lose the answer. */
  answering: () => void | Promise<void> = () => {};
  /** The price that the machine actually has. */
  priceMicro: number | null = 1_000_000;
  /** Reports a termination without terminating. */
  lies = false;
  /** Also lists machines outside the requested prefix. */
  sloppy = false;
  /** Machines that exist and are not listed yet. */
  readonly unlisted = new Set<string>();
  #made = 0;

  add(name: string, id = `pod-${++this.#made}`): MachineHandle {
    const handle: MachineHandle = { v: 1, provider: "podhost", id, name, address: null, priceMicro: this.priceMicro };
    this.machines.push(handle);
    return handle;
  }

  get names(): string[] {
    return this.machines.map((m) => m.name);
  }

  async #asked(call: string): Promise<void> {
    this.calls.push(call);
    await this.before(call);
  }

  async listOffers(): Promise<Offer[]> {
    await this.#asked("offers");
    return this.offers;
  }
  async create(offer: Offer, order: Order): Promise<MachineHandle> {
    await this.#asked(`create ${offer.id}`);
    const handle = this.add(order.name);
    await this.answering();
    return handle;
  }
  async inspect(handle: MachineHandle): Promise<MachineStatus> {
    await this.#asked(`inspect ${handle.id}`);
    return this.machines.some((m) => m.id === handle.id) ? { phase: "ready", address: null } : { phase: "gone" };
  }
  async terminate(handle: MachineHandle): Promise<void> {
    await this.#asked(`terminate ${handle.id}`);
    if (!this.lies) this.machines = this.machines.filter((m) => m.id !== handle.id);
  }
  async listOwned(prefix: string): Promise<MachineHandle[]> {
    await this.#asked("list");
    return this.machines.filter((m) => (this.sloppy || m.name.startsWith(prefix)) && !this.unlisted.has(m.id));
  }
  selfEnd(): null {
    return null;
  }
  access(_handle: MachineHandle): MachineAccess {
    throw new TypeError("no run is looked at in these tests");
  }
}
