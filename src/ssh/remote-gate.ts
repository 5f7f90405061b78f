// The gate of a machine over its agent: the program travels with the request that starts it. docs/internals/gate.md explains the rest.

import { z } from "zod";
import { AgentRefusal } from "./agent-client.ts";
import { askAgent, type AskedMachine } from "./ask-agent.ts";
import { SvcError } from "../errors/index.ts";
import type { MachineGate } from "../providers/host.ts";
import { GateLook } from "../schemas/gate.ts";

const ANSWER_MS = 20_000;

/**
 * Throws the errors of reaching the machine, and `machine_unfit` where the gate itself does not work there.
 *
 * @param text the program
 * @param folder where the run's files will be on the machine
 */
export function remoteGate({ agent, name: machine }: AskedMachine, text: () => Buffer, folder: string): MachineGate {
  const ask = <T>(op: string, args: Record<string, unknown>, schema: z.ZodType<T>, options: AskOptions) =>
    askAgent(agent, op, args, schema, options).catch((thrown: unknown) => {
      if (!(thrown instanceof AgentRefusal)) throw thrown;
      throw new SvcError("machine_unfit", { machine, why: `its tests failed: ${thrown.message}` }, { cause: thrown });
    });
  return {
    async start(wish, signal) {
      await ask("gate", { ask: { ...wish, folder } }, z.object({}), { signal, body: text(), timeoutMs: ANSWER_MS });
    },
    async look({ need, waitMs, end }, signal) {
      const args = { need, wait_ms: waitMs, end };
      const { value } = await ask("gate_look", args, GateLook, { signal, timeoutMs: waitMs + ANSWER_MS });
      return { ...value, clockAheadMs: value.now_ms - Date.now() };
    },
  };
}

type AskOptions = Parameters<typeof askAgent>[4];
