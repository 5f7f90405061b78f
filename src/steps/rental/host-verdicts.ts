// Writes down how a rented machine turned out, so that a host that was bad is avoided and the plan can say what to expect. Wraps the steps
// that find it out; they know nothing of it.

import { gpuModelOf } from "../../domain/host-history.ts";
import { SvcError, type ErrorData } from "../../errors/index.ts";
import type { HostMemory, LedgerEntry, RentedMachine, StepPorts } from "../ports.ts";
import type { StepContext, StepDefinition } from "../step.ts";
import { heldEntry } from "./held-entry.ts";

type Services = Pick<StepPorts, "facts" | "provider" | "ledger" | "now"> & { hosts: HostMemory };

export function withHostVerdicts(step: StepDefinition, services: Services): StepDefinition {
  return {
    ...step,
    async run(context) {
      try {
        const result = await step.run(context);
        const machine = step.name === "await_ssh" && "done" in result ? rented(services, context) : null;
        if (machine !== null) await services.hosts.good(machine);
        return result;
      } catch (thrown) {
        const reason = hostsFault(thrown);
        const machine = reason === null ? null : rented(services, context);
        if (machine !== null && reason !== null) await services.hosts.bad(machine, reason);
        throw thrown;
      }
    },
  };
}

/** The fault of the host; null if the image, the price, the account or the connection is at fault. */
function hostsFault(thrown: unknown): string | null {
  if (!(thrown instanceof SvcError)) return null;
  if (thrown.code === "machine_unfit") {
    const { why, image } = thrown.data as ErrorData<"machine_unfit">;
    return image ? null : why;
  }
  if (thrown.code !== "machine_broken") return null;
  const { why, elsewhere } = thrown.data as ErrorData<"machine_broken">;
  return elsewhere ? why : null;
}

function rented(services: Services, { jobId, node }: StepContext): RentedMachine | null {
  const { spec } = services.facts(jobId);
  if (!services.provider(spec.provider).info.capabilities.owns_machine) return null;
  const entry = heldEntry(services.ledger, jobId, node);
  return entry === undefined ? null : rentedMachine(entry, spec.gpus, services.now());
}

/** Null for an order without a machine. */
export function rentedMachine(
  { name, handle, createdAt }: LedgerEntry,
  gpus: string,
  now: number,
): RentedMachine | null {
  if (handle === null) return null;
  // `machine_id`: on handles that were found again by a listing.
  const host = handle.extra?.["host"] ?? handle.extra?.["machine_id"] ?? null;
  const seconds = Math.max(0, (now - createdAt) / 1_000);
  return { name, provider: handle.provider, host, gpu: gpuModelOf(gpus), seconds };
}
