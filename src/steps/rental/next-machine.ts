// Another machine of the same order, where the one that was rented cannot start and the fault is its host's.
//
// N1. The next order leaves only after the one before is proven gone: never two machines of one node.
// N2. The machine that is given up is written down as `releasing` first, so that a control plane that starts anew goes on here.

import { SvcError, type ErrorData } from "../../errors/index.ts";
import { provisionStep } from "../provision.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext, StepDefinition, StepLater } from "../step.ts";
import { release } from "../terminate.ts";

/** Machines that are given up for one run's node until its run ends with what the last one said. */
const NEXT_MAX = 2;

export class NextMachine {
  readonly #services: RunServices;
  readonly #provision: StepDefinition;

  constructor(services: RunServices) {
    this.#services = services;
    this.#provision = provisionStep(services);
  }

  /** Gives the machine up that threw `e`; throws it again where another one would not do better, or enough were tried. */
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

  /** What is to be done before a machine can be looked at; null where the node holds one. */
  async pending(context: StepContext): Promise<StepLater | null> {
    const open = this.#services.ledger.open(context.jobId, context.node);
    const leaving = open.find(({ state }) => state === "releasing");
    if (leaving) {
      const provider = this.#services.provider(this.#services.facts(context.jobId).spec.provider);
      const wait = await release(this.#services, provider, leaving, context.signal);
      return wait ?? { later: { afterMs: 0, why: "the machine that could not start is gone; another one is ordered" } };
    }
    if (open.some(({ handle }) => handle !== null)) return null;
    // Also where an answer was lost meanwhile: the step that rents knows what to do with every state of an order.
    const result = await this.#provision.run(context);
    return "later" in result ? result : { later: { afterMs: 0, why: "another machine was ordered" } };
  }
}
