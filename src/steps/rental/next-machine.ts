// Rents another machine for the same node if the rented one cannot start because of its host.
//
// N1. The next order leaves only after the one before is proven gone: never two machines of one node.
// N2. The abandoned machine is recorded as `releasing` first, so that a restarted control plane continues here.

import { SvcError, type ErrorData } from "../../errors/index.ts";
import { provisionStep } from "../provision.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext, StepDefinition, StepLater } from "../step.ts";
import { release } from "../terminate.ts";

/** Maximum of abandoned machines for one run's node; after that its run ends with the last one's error. */
const NEXT_MAX = 2;

export class NextMachine {
  readonly #services: RunServices;
  readonly #provision: StepDefinition;

  constructor(services: RunServices) {
    this.#services = services;
    this.#provision = provisionStep(services);
  }

  /** Gives up the machine that threw `e`; rethrows it if another machine would not do better, or enough were tried. */
  async giveUp(context: StepContext, e: unknown): Promise<StepLater> {
    if (!(e instanceof SvcError) || e.code !== "machine_broken") throw e;
    const { elsewhere, machine, why } = e.data as ErrorData<"machine_broken">;
    // From the ledger: a restart grants no further machine.
    const given = this.#services.ledger.givenBack(context.jobId, context.node);
    const entry = this.#services.ledger.open(context.jobId, context.node).find(({ handle }) => handle !== null);
    if (elsewhere !== true || given >= NEXT_MAX || !entry) throw e;
    const words = `The machine ${machine} cannot start: ${why}. It is given back, and another one is ordered (${given + 1} of ${NEXT_MAX}).`;
    await this.#services.sink.notice(context.jobId, "warning", words);
    await this.#services.ledger.note(entry.name, { kind: "machine_broken", message: words });
    await this.#services.ledger.releasing(entry.name);
    return { later: { afterMs: 0, why: words } };
  }

  /** Work before a machine can be polled; null if the node holds one. */
  async pending(context: StepContext): Promise<StepLater | null> {
    const open = this.#services.ledger.open(context.jobId, context.node);
    const leaving = open.find(({ state }) => state === "releasing");
    if (leaving) {
      const provider = this.#services.provider(this.#services.facts(context.jobId).spec.provider);
      const wait = await release(this.#services, provider, leaving, context.signal);
      return wait ?? { later: { afterMs: 0, why: "the machine that could not start is gone; another one is ordered" } };
    }
    if (open.some(({ handle }) => handle !== null)) return null;
    // Also if an answer was lost meanwhile: the provision step handles every state of an order.
    const result = await this.#provision.run(context);
    return "later" in result ? result : { later: { afterMs: 0, why: "another machine was ordered" } };
  }
}
