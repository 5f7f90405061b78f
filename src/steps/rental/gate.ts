// The gate of one machine as the steps use it: `sync` starts it and looks at it after the upload, `launch` ends it. The machine's agent holds
// the results, and it ends with its connection: if it was lost in between, `launch` runs the tests again before it starts the script.
// docs/internals/gate.md has the rules (H1 to H6).

import { SvcError } from "../../errors/index.ts";
import { answersOf, PROBE_NAMES, type GateAnswers, type GateLook, type ProbeName } from "../../schemas/gate.ts";
import { isCpu } from "../../domain/gpus.ts";
import type { RunServices } from "../run-services.ts";
import type { StepContext } from "../step.ts";
import { gateDetail, judgeGate, type Finding } from "./gate-verdict.ts";
import type { HeldMachine } from "./held-machine.ts";
import { costSoFar } from "./machine-fit.ts";

/** All of it. */
const GATE_MS = 20_000;
/** How long a machine may wait for the gate after its upload. */
const BEYOND_UPLOAD_MS = 1_000;
/** The script does not start before these probes have answered, unless they exceed the gate's limit. */
const OF_GPU: readonly ProbeName[] = ["gpus", "cuda"];
const WITHOUT_GPU: readonly ProbeName[] = ["shm", "disk", "download"];
/** When `launch` runs the tests again, no upload runs next to them: it waits for those that are fast and can refuse a machine. */
const AGAIN_OF_GPU: readonly ProbeName[] = [...OF_GPU, "gpu_health", "xid", "disk"];
const AGAIN_WITHOUT_GPU: readonly ProbeName[] = ["disk"];

type Services = Pick<RunServices, "facts" | "sink" | "ledger" | "now" | "gateIndex" | "hosts">;

const isOff = (services: Services, { jobId }: StepContext, { access }: HeldMachine): boolean =>
  access.gate === undefined || services.facts(jobId).spec.health === "off";

const probesOf = ({ facts, gateIndex }: Services, { jobId }: StepContext): readonly ProbeName[] =>
  (isCpu(facts(jobId).spec.gpus) ? WITHOUT_GPU : PROBE_NAMES).filter(
    (name) => name !== "download" || gateIndex !== "off",
  );

/** Starts the gate of a machine that is about to receive the run's files. If the gate itself fails, the run continues. */
export async function beginGate(services: Services, context: StepContext, held: HeldMachine): Promise<void> {
  const { access, handle } = held;
  if (isOff(services, context, held)) return;
  const index = services.gateIndex;
  const probes = probesOf(services, context);
  const ask = {
    seconds: GATE_MS / 1_000,
    python: handle.extra?.["python"] ?? "python3",
    probes,
    ...(index === undefined || index === "off" ? {} : { index }),
  };
  await access.gate?.start(ask, context.signal).catch((e: unknown) => unlessLost(services, context, e));
}

/** Reads the results after the upload: waits at most one second for the probes of the GPUs. Throws `machine_unfit`. */
export async function lookThroughGate(services: Services, context: StepContext, held: HeldMachine): Promise<Judged> {
  const look = await judged(services, context, held, { waitMs: BEYOND_UPLOAD_MS, end: false });
  return look === "unknown" ? {} : look;
}

/**
 * Ends the gate before the script starts, so that nothing of it remains on the GPUs. If the results were lost with their connection, it
 * tests again first. Throws `machine_unfit`.
 */
export async function endGate(services: Services, context: StepContext, held: HeldMachine) {
  const first = await judged(services, context, held, { waitMs: GATE_MS, end: true });
  if (first !== "unknown") return first;
  // A script that was started already uses the GPUs: their memory is no longer free, and the result would be wrong.
  if ((await held.access.host("run").status(context.signal)) !== null) return {};
  await beginGate(services, context, held);
  const need = isCpu(services.facts(context.jobId).spec.gpus) ? AGAIN_WITHOUT_GPU : AGAIN_OF_GPU;
  const again = await judged(services, context, held, { waitMs: GATE_MS, end: true, need });
  return again === "unknown" ? {} : again;
}

interface Judged {
  gate?: Record<string, unknown>;
}

/** "unknown": the machine's agent has started no gate. */
async function judged(
  services: Services,
  context: StepContext,
  held: HeldMachine,
  { waitMs, end, need: wanted }: { waitMs: number; end: boolean; need?: readonly ProbeName[] },
): Promise<Judged | "unknown"> {
  const { access, handle } = held;
  const { spec } = services.facts(context.jobId);
  if (isOff(services, context, held) || access.gate === undefined) return {};
  const need = wanted ?? (isCpu(spec.gpus) ? [] : OF_GPU);
  const began = performance.now();
  let look: GateLook & { clockAheadMs: number };
  try {
    look = await access.gate.look({ need, waitMs, end }, context.signal);
  } catch (e) {
    await unlessLost(services, context, e);
    return {};
  }
  if (!look.started) return "unknown";
  const answers = answersOf(look);
  const before = answersOf({ results: look.results.filter(({ probe }) => look.told.includes(probe)) });
  const known = new Set(
    look.told.length === 0 ? [] : judgeGate(spec, before, look.clockAheadMs).map(({ words }) => words),
  );
  const findings = judgeGate(spec, answers, look.clockAheadMs);
  const uuids = uuidsIn(answers);
  const earlier = uuids.length > 0 ? await services.hosts.gpus(handle.name, uuids) : null;
  if (earlier !== null) findings.push({ hard: false, words: earlier });
  if (earlier !== null && look.told.includes("gpus")) known.add(earlier);
  const bad = findings.filter((finding) => finding.hard);
  if (bad.length > 0 && held.provider.info.capabilities.owns_machine) {
    const entry = services.ledger.open(context.jobId, context.node).find(({ name }) => name === handle.name);
    const cost = costSoFar(handle.priceMicro, services.now() - (entry?.createdAt ?? services.now()));
    throw new SvcError("machine_unfit", { machine: handle.name, why: `${wordsOf(bad)}${cost}` });
  }
  for (const { words } of findings)
    if (!known.has(words)) await services.sink.notice(context.jobId, "warning", `Of ${handle.name}: ${words}.`);
  const unfinished = look.over ? [] : probesOf(services, context).filter((name) => answers[name] === undefined);
  const told = {
    ...gateDetail(answers, look.clockAheadMs),
    ...(findings.length > 0 ? { findings: findings.map(({ words }) => words) } : {}),
    ...(end && unfinished.length > 0 ? { unfinished } : {}),
    waited_ms: Math.round(performance.now() - began),
  };
  return { gate: told };
}

function uuidsIn({ gpus }: GateAnswers): string[] {
  if (gpus === undefined || !("ok" in gpus)) return [];
  return gpus.ok.gpus.map(({ uuid }) => uuid).filter((uuid) => /^(GPU|MIG)-[\w-]{8,}$/.test(uuid));
}

const wordsOf = (findings: readonly Finding[]): string => findings.map(({ words }) => words).join("; ");

/**
 * A failure of the gate itself is not the machine's fault and only warns. A lost connection is thrown, for the step to
 * handle.
 */
async function unlessLost(services: Services, { jobId, signal }: StepContext, e: unknown): Promise<void> {
  if (signal.aborted || !(e instanceof SvcError && e.code === "machine_unfit")) throw e;
  await services.sink.notice(jobId, "warning", `The machine could not be tested: ${e.message}`);
}
