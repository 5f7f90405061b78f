import type { z } from "zod";
import type { AgentClient, CallOptions } from "./agent-client.ts";
import { SvcError } from "../errors/index.ts";

/** A machine reached by its agent; `agent` connects if necessary. */
export interface AskedMachine {
  readonly name: string;
  readonly agent: (signal: AbortSignal) => Promise<AgentClient>;
}

/** Makes one call, with one retry if the channel had died unnoticed. Every call is idempotent (H1 of src/providers/host.ts). */
export async function askAgent<T>(
  agent: AskedMachine["agent"],
  op: string,
  args: Record<string, unknown>,
  schema: z.ZodType<T>,
  options: CallOptions,
): Promise<{ value: T; bytes: Buffer }> {
  for (let again = true; ; again = false) {
    const client = await agent(options.signal);
    const fresh = client.calls === 0;
    try {
      return await client.call(op, args, schema, options);
    } catch (thrown) {
      const died = thrown instanceof SvcError && thrown.code === "ssh_unreachable" && !options.signal.aborted;
      if (!died || fresh || !again) throw thrown;
    }
  }
}
