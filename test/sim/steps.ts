// The steps of a simulated control plane. Renting, waiting, launching and releasing are the real ones; file transfer is
// not under test, so sync, install, stream and collect are small replacements for the simulated machine.

import { describeError, SvcError } from "../../src/errors/index.ts";
import { placeStep } from "../../src/steps/place.ts";
import { provisionStep } from "../../src/steps/provision.ts";
import type { RunServices } from "../../src/steps/run-services.ts";
import { awaitSshStep } from "../../src/steps/await-ssh.ts";
import { launchStep } from "../../src/steps/launch.ts";
import type { StepContext, StepDefinition, StepRegistry } from "../../src/steps/step.ts";
import { terminateStep } from "../../src/steps/terminate.ts";
import type { MachineHandle, Provider } from "../../src/providers/provider.ts";
import type { World } from "./world.ts";
import type { Plan } from "./plan.ts";

export interface StepWorld {
  world: World;
  plan: Plan;
  /** The provider of the machine with this handle. */
  providerOf: (handle: MachineHandle) => Provider;
  /** The machine was reached, and its guard gets the deadline of the budget. */
  contact: (handle: MachineHandle, jobId: string) => void;
  /** Reports that the script's checkpoints so far are downloaded. */
  saved: (handle: MachineHandle) => void;
  services: RunServices;
  /** Resolves after a while, rejects when the signal aborts; never does either once this life is over. */
  sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Called around each attempt, to check the engine's promises. */
  began: (context: StepContext) => void;
  ended: (context: StepContext) => void;
}

const HOUR = 3_600_000;

export function simulatedSteps(w: StepWorld): StepRegistry {
  const work = async (what: string, usualMs: number, signal: AbortSignal): Promise<void> => {
    const { rng } = w.world;
    const { faults, ideal } = w.plan;
    if (ideal) return await w.sleep(10, signal);
    await w.sleep(rng.chance(faults.stepHangs) ? rng.int(usualMs, 8 * HOUR) : rng.int(1, usualMs), signal);
    if (rng.chance(faults.stepFails))
      throw new SvcError("provider_error", { provider: "podhost", why: `${what} failed` });
  };
  const handleOf = ({ jobId, node }: StepContext) => {
    const entry = w.services.ledger.open(jobId, node).find((e) => e.handle !== null);
    return entry?.handle ?? null;
  };
  const small = (name: "sync" | "install", attemptsMax: number, usualMs: number): StepDefinition => ({
    name,
    retry: { attemptsMax, delayMsMin: 500, delayMsMax: 30_000 },
    async run(context) {
      context.progress({ doing: name });
      await work(name, usualMs, context.signal);
      return { done: {} };
    },
  });
  const stream: StepDefinition = {
    name: "stream",
    retry: { attemptsMax: Number.MAX_SAFE_INTEGER, delayMsMin: 500, delayMsMax: 30_000 },
    // A poll that is never answered must not be the last one.
    attemptMs: 30 * 60_000,
    async run(context) {
      for (;;) {
        const handle = handleOf(context);
        const machine = handle?.name ?? "";
        const lost = { provider: handle?.provider ?? "podhost", machine };
        if (!handle) throw new SvcError("machine_lost", lost);
        const looked = await w.providerOf(handle).inspect(handle, context.signal);
        if (looked.phase === "gone" && looked.preempted === true)
          throw new SvcError("machine_preempted", { ...lost, why: looked.why ?? "it was taken back" });
        if (looked.phase === "gone") throw new SvcError("machine_lost", lost);
        const status = await w.providerOf(handle).access(handle).host("run").status(context.signal);
        w.contact(handle, context.jobId);
        if (context.node === 0) w.saved(handle);
        if (status === null) throw new SvcError("runner_failed", { why: "there is no run to follow" });
        if (status.phase === "exited") {
          const exit_code = status.exit_code ?? 255;
          return {
            done: {
              exit_code,
              failure: `exit:${exit_code}`,
              error:
                exit_code === 0
                  ? null
                  : describeError("script_failed", {
                      exit_code,
                      signal: null,
                      who: "The script",
                      why: null,
                    }),
            },
          };
        }
        context.progress({ looked: w.world.now });
        await w.sleep(w.plan.ideal ? 900 : w.world.rng.int(1_000, 10 * 60_000), context.signal);
      }
    },
  };
  const collect: StepDefinition = {
    name: "collect",
    retry: { attemptsMax: 4, delayMsMin: 1_000, delayMsMax: 30_000 },
    async run(context) {
      const handle = handleOf(context);
      if (!handle) return { done: { exit_code: null } };
      const host = w.providerOf(handle).access(handle).host("run");
      await host.stop(10, context.signal);
      await work("collect", 20_000, context.signal);
      return { done: { exit_code: (await host.status(context.signal))?.exit_code ?? null } };
    },
  };
  const all: StepRegistry = {
    place: placeStep(w.services),
    provision: provisionStep(w.services),
    await_ssh: awaitSshStep(w.services),
    sync: small("sync", 5, 5_000),
    install: small("install", 1, 60_000),
    launch: launchStep(w.services),
    stream,
    collect,
    terminate: terminateStep(w.services),
  };
  const watched = (step: StepDefinition): StepDefinition => ({
    ...step,
    async run(context) {
      w.began(context);
      try {
        return await step.run(context);
      } finally {
        w.ended(context);
      }
    },
  });
  return Object.fromEntries(Object.entries(all).map(([name, step]) => [name, watched(step)])) as StepRegistry;
}
