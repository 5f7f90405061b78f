import type { z } from "zod";
import type { AgentClient, AgentRefusal, CallOptions } from "./agent-client.ts";
import { FILE_LIMIT, READ_ONLY } from "./words.ts";
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

/** The error for a disk that refuses to be written, `full` saying what did not fit; null for other refusals. */
export function diskRefusal(machine: string, refusal: AgentRefusal, full: string): SvcError | null {
  const options = { cause: refusal };
  if (refusal.kind === "disk_full") return new SvcError("machine_disk_full", { machine, why: full }, options);
  if (refusal.kind === "read_only") return new SvcError("machine_unfit", { machine, why: READ_ONLY }, options);
  if (refusal.kind === "file_limit") return new SvcError("machine_unfit", { machine, why: FILE_LIMIT }, options);
  return null;
}
