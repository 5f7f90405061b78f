// Asks the provider about a machine beside other work on it: whether it still serves, and its present price.
//
// V1. Nothing waits for the provider: a hanging or throttling provider must delay neither an upload, nor the log, nor the end of a run, whose
//     machine costs money meanwhile. It receives no second request before it has answered the first one.
// V2. A machine that answers over SSH exists, even if a listing omits it for a while. When it is gone, SSH fails, and
//     that failure triggers another request to the provider.
// V3. A price above the cap ends an upload, and an upload that is ended for it does not hide the reason.
// V4. The machine of another node costs money while that node waits: it is asked about as well, and only its price ends the work.

import { SvcError, type ErrorData } from "../../errors/index.ts";
import type { StepPorts } from "../ports.ts";
import type { StepContext } from "../step.ts";
import { isVerdict, lookAtMachine, lookAtOtherNodes, type HeldMachine } from "./held-machine.ts";

/** Interval at which svc asks the provider whether the machine still exists, and its present price. */
const LOOK_EVERY_MS = 30_000;

/** A parameter, so that not every step creates an exception with a stack. */
const OVER = "the work on the machine has ended";

/** V2 */
const saysGone = (verdict: unknown): boolean =>
  verdict instanceof SvcError &&
  (verdict.code === "machine_lost" || (verdict.code === "machine_preempted" && isGone(verdict)));
const isGone = ({ data }: SvcError): boolean => (data as ErrorData<"machine_preempted">).gone === true;

export class MachineWatch {
  readonly #ports: StepPorts;
  readonly #context: StepContext;
  readonly #held: HeldMachine;
  #dueAt: number;
  #looking = false;
  #verdict: { cause: unknown } | null = null;

  constructor(ports: StepPorts, context: StepContext, held: HeldMachine) {
    this.#ports = ports;
    this.#context = context;
    this.#held = held;
    this.#dueAt = held.access.inPlace ? Infinity : ports.now() + LOOK_EVERY_MS;
  }

  /** Infinity while an answer is awaited. */
  get dueAt(): number {
    return this.#looking ? Infinity : this.#dueAt;
  }

  /** What an earlier poll found against the machine; null for nothing. */
  get verdict(): { cause: unknown } | null {
    return this.#verdict;
  }

  /** Whether the machine still serves, at a price within the cap; throws the finding of an earlier poll against that. */
  look(): void {
    if (this.#verdict) throw this.#verdict.cause;
    if (!this.#looking && this.#ports.now() >= this.#dueAt) void this.ask();
  }

  /** Never rejects. An unreachable provider ends nothing. */
  async ask(): Promise<void> {
    this.#looking = true;
    this.#dueAt = this.#ports.now() + LOOK_EVERY_MS;
    try {
      await lookAtMachine(this.#ports, this.#context, this.#held);
      await lookAtOtherNodes(this.#ports, this.#context);
    } catch (cause) {
      if (isVerdict(cause) && !saysGone(cause)) this.#verdict = { cause };
    } finally {
      this.#looking = false;
    }
  }
}

/**
 * Acts on the machine, and asks the provider about it meanwhile. Its price counts in any case.
 * @param ends what a finding against the machine does: it ends the act and is thrown, or (for a machine that is released anyway) nothing.
 */
export async function watching<T>(
  ports: StepPorts,
  context: StepContext,
  held: HeldMachine,
  ends: "act" | "nothing",
  act: (context: StepContext) => Promise<T>,
): Promise<T> {
  if (held.access.inPlace) return act(context);
  const over = new AbortController();
  const ended = new AbortController();
  const until = AbortSignal.any([context.signal, over.signal]);
  const watch = new MachineWatch(ports, { ...context, signal: until }, held);
  const asking = async (): Promise<void> => {
    for (;;) {
      await ports.pause(LOOK_EVERY_MS, until);
      await watch.ask();
      if (ends === "act" && watch.verdict) return ended.abort(watch.verdict.cause);
    }
  };
  // Its pause rejects when the act is over.
  void asking().catch(() => undefined);
  try {
    return await act({ ...context, signal: AbortSignal.any([context.signal, ended.signal]) });
  } catch (e) {
    // V3
    if (!context.signal.aborted) ended.signal.throwIfAborted();
    throw e;
  } finally {
    over.abort(OVER);
  }
}
