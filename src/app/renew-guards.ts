// Sends new deadlines to the guards of a job's machines at once, after a change; otherwise they come with the next contact.

import type { DurableLedger } from "../engine/ledger.ts";
import { holdMachine } from "../steps/rental/held-machine.ts";
import type { RunServices } from "../steps/run-services.ts";

const ASK_MS = 10_000;

/** Never rejects: the change is durable, and a machine that cannot be reached now has the deadlines from before. */
export async function renewGuards(services: RunServices, ledger: DurableLedger, jobId: string): Promise<void> {
  const { nodes } = services.facts(jobId).spec;
  const held = Array.from({ length: nodes }, (_, node) => ledger.open(jobId, node)).flat();
  const renewals = held.map(async ({ handle, provider: name, node }) => {
    if (handle === null) return;
    const provider = services.provider(name);
    const access = provider.access(handle);
    // Before the first greeting there is no connection; that greeting brings the deadlines.
    if (access.inPlace || handle.extra?.["home"] === undefined) return;
    const context = { jobId, node, signal: AbortSignal.timeout(ASK_MS) };
    await holdMachine(services, context, { provider, handle, access });
  });
  await Promise.allSettled(renewals);
}
