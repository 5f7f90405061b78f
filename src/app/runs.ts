// Provides the steps with the facts of a run, its secrets and its folders.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { guardOf, runPlaceOf, type PlaceParts } from "../steps/launch/run-paths.ts";
import { RunSecrets } from "../steps/launch/run-secrets.ts";
import { assert } from "../errors/assert.ts";
import { candidateSpec, candidateSpecs, withoutBadImages } from "../domain/candidates.ts";
import { pause } from "../domain/clock.ts";
import type { RunSpec } from "../schemas/spec.ts";
import type { Engine } from "../engine/engine.ts";
import type { Resumes } from "../steps/checkpoints/resume-choices.ts";
import type { DurableStorySink } from "../engine/run-log-writer.ts";
import { pinnedData } from "../files/data/pin.ts";
import type { ManifestSeal } from "../files/code/code-snapshot.ts";
import { checkEntrypoint } from "../files/entrypoint.ts";
import type { KnownSecrets } from "../secrets/known.ts";
import { unsealSpec } from "../secrets/sealed-spec.ts";
import type { SinkSet } from "../sinks/sinks.ts";
import { MachineLooks } from "../steps/rental/machine-looks.ts";
import { TunnelOutages } from "../steps/rental/tunnel-outage.ts";
import { CheckpointCollector } from "../steps/checkpoints/collector.ts";
import type { NodeOfSeveral } from "../steps/checkpoints/sets.ts";
import { nodeFolder, Undecided } from "../steps/follow/log-follower.ts";
import { installCommand } from "../steps/launch/install-command.ts";
import type { BudgetPorts, HostMemory, JobFacts, Search } from "../steps/ports.ts";
import { planRunner } from "../steps/launch/runner-spec.ts";
import type { KeepRules } from "../steps/checkpoints/retention.ts";
import type { RunServices } from "../steps/run-services.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { homeLayout } from "../platform/home-layout.ts";
import { storedLeftOut } from "../store/stored-json.ts";

export interface RunParts extends PlaceParts {
  /** The installation's. */
  key: Buffer;
  known: KnownSecrets;
  manifests: ManifestSeal;
  engine: Engine;
  sink: DurableStorySink;
  sinks: SinkSet;
  hosts: HostMemory;
  /** Points of a metric, in the order in which they were logged. */
  points: (jobId: string, metric: string) => { step: number; value: number }[];
  budget: BudgetPorts;
  /** Called for a machine that is gone, so that no connection to it stays open. */
  gone: (machine: string) => void;
}

export function runServices(parts: RunParts): RunServices & {
  forget(jobId: string): void;
  /** The job's spec was changed. */
  respec(jobId: string): void;
  stop(): Promise<void>;
} {
  const { home, env, key, known, engine, ledger, sink, sinks, providers, resumes } = parts;
  const runs = knownRuns(parts);
  const { facts } = runs;
  const secrets = new RunSecrets({
    home,
    env,
    key,
    known,
    spec: (jobId) => facts(jobId).spec,
    ofSinks: (jobId, spec) => sinks.secretsOf(jobId, spec),
  });
  const collectors = collectorsOf(
    home,
    resumes,
    (jobId, node) => ({ node, nodes: facts(jobId).spec.nodes, placement: facts(jobId).placement }),
    (jobId, node) => {
      const { keep_checkpoints: keep, nodes } = facts(jobId).spec;
      if (keep === undefined) return undefined;
      return {
        keep,
        announced: () => resumes.announced(jobId),
        points: (metric) => parts.points(jobId, metric),
        savedBy: () => sink.placementsOf(jobId),
        isEarlier: (paths) => sink.isEarlier(jobId, paths),
        uncopied: () => sinks.uncopied(jobId).map(({ path }) => path),
        node,
        nodes,
        checkpoints: homeLayout.checkpoints(home, jobId),
      };
    },
    (jobId, path) => sink.savedBy(jobId, path),
    (jobId, seen) => parts.budget.unfetched(jobId, seen),
  );
  const undecided = new Undecided();
  return {
    installationId: engine.store.installationId,
    now: engine.clock.now,
    facts,
    provider: (name) => {
      const provider = providers.get(name);
      assert(provider, `unknown provider ${name}`);
      return provider;
    },
    ledger,
    budget: parts.budget,
    hosts: parts.hosts,
    sink,
    secrecy: (jobId) => secrets.secrecy(jobId),
    entry: checkEntrypoint,
    ways: new TunnelOutages(engine.clock.now),
    looks: new MachineLooks(engine.clock.now),
    gone: parts.gone,
    packagesDir: join(parts.programRoot, "python"),
    code: (jobId, node) => ({ ...runs.code(jobId), stageDir: homeLayout.stage(home, jobId, node) }),
    leftOut: (jobId) => {
      const told = engine.store.job(jobId)?.left_out;
      // svc wrote it in this form when the job was submitted.
      return told ? storedLeftOut(told) : null;
    },
    guard: (jobId, handle) => {
      const guard = guardOf(facts(jobId).spec, providers.get(handle.provider), handle);
      return guard && { ...guard, deadline: () => parts.budget.limit(jobId) };
    },
    installCommand: (jobId, inPlace) => {
      const { spec, projectDir } = facts(jobId);
      return installCommand(spec, inPlace ? null : runs.code(jobId), projectDir);
    },
    plan: async (jobId, node, purpose, passwords = []) => {
      const { spec } = facts(jobId);
      const { placement } = facts(jobId);
      const where = await runPlaceOf(parts, facts(jobId), () => runs.code(jobId), node, purpose);
      const given = secrets.give(jobId, where.inPlace);
      const plan = planRunner({
        jobId,
        node,
        placement,
        spec,
        ...where,
        mark: secrets.mark(jobId),
        nonce: secrets.nonce(jobId, node, purpose, placement),
        secret: given.secret,
        injected: given.injected,
        rayToken: secrets.rayToken(jobId),
      });
      given.seal(passwords);
      return plan;
    },
    checkpointDir: (jobId, node) => homeLayout.nodeCheckpoints(home, jobId, node),
    data: (jobId) => pinnedData(home, jobId, facts(jobId).spec.data),
    dataDir: (jobId, node) => homeLayout.nodeData(home, jobId, node),
    collector: collectors.of,
    resume: async (jobId) => {
      const chosen = await resumes.of(jobId);
      const { placement } = facts(jobId);
      if (chosen !== null) {
        const text = JSON.stringify({ job: chosen.job, checkpoint: chosen.name });
        await engine.commit((tx) => tx.store.resumedFrom(jobId, placement, text));
      }
      return chosen;
    },
    search: runs.search,
    searches: (jobId) => engine.placement(jobId).searches,
    checkpoint: async (jobId) => (engine.placement(jobId).mayGoOn ? resumes.newestOf(jobId) : null),
    announced: (jobId, node, names) => resumes.announce(jobId, node, names),
    undecided,
    silent: (jobId, node) => undecided.settle(jobId, node),
    ...(env["SVC_GATE_INDEX"] ? { gateIndex: env["SVC_GATE_INDEX"] } : {}),
    pause: (ms, signal) => pause(engine.clock, ms, signal),
    forget: (jobId) => {
      runs.forget(jobId);
      secrets.forget(jobId);
      collectors.forget(jobId);
      undecided.forget(jobId);
    },
    respec: runs.forget,
    stop: collectors.stop,
  };
}

/** The store's facts about a run, read once. */
function knownRuns({ home, engine, key, manifests }: Pick<RunParts, "home" | "engine" | "key" | "manifests">) {
  const known = new Map<string, { facts: JobFacts; index: number }>();
  const specs = new Map<string, RunSpec>();
  const specOfJob = (jobId: string): RunSpec => {
    const before = specs.get(jobId);
    if (before !== undefined) return before;
    const row = engine.store.job(jobId);
    assert(row, `job ${jobId} has no row`);
    const spec = unsealSpec(specOf(row), key);
    specs.set(jobId, spec);
    return spec;
  };
  return {
    facts: (jobId: string): JobFacts => {
      const { n, candidate, on_demand } = engine.placement(jobId);
      const before = known.get(jobId);
      const placement = Math.max(1, n);
      const index = candidate ?? 0;
      if (before?.facts.placement === placement && before.index === index) return before.facts;
      const spec = candidateSpec(specOfJob(jobId), index, on_demand);
      const facts = { id: jobId, spec, projectDir: spec.project_dir ?? home, placement };
      known.set(jobId, { facts, index });
      return facts;
    },
    search: (jobId: string): Search => {
      const spec = specOfJob(jobId);
      const { searching_since, refusals, on_demand, ruledOut } = engine.placement(jobId);
      return {
        ...withoutBadImages(candidateSpecs(spec, on_demand), ruledOut),
        choose: spec.choose ?? "in_order",
        since: searching_since ?? engine.clock.now(),
        waitMs: (spec.wait_for_capacity_minutes ?? 0) * 60_000,
        refusals,
        unfit: engine.store
          .placementFailures(jobId)
          .filter(({ failure }) => failure === "machine_unfit" || failure === "boot_failed")
          .map(({ candidate }) => candidate),
      };
    },
    code: (jobId: string): { codeDir: string; id: string; manifests: ManifestSeal } => {
      const id = engine.store.job(jobId)?.code_snapshot;
      assert(id, `job ${jobId} has no code snapshot`);
      return { codeDir: homeLayout.code(home), id, manifests };
    },
    forget: (jobId: string): void => {
      known.delete(jobId);
      specs.delete(jobId);
    },
  };
}

/** One collector per node: it remembers which files it has downloaded. */
function collectorsOf(
  home: string,
  resumes: Resumes,
  placeOf: (jobId: string, node: number) => Omit<NodeOfSeveral, "checkpoints">,
  keepOf: (jobId: string, node: number) => KeepRules | undefined,
  savedBy: (jobId: string, path: string) => number | null,
  unfetched: BudgetPorts["unfetched"],
) {
  const made = new Map<string, CheckpointCollector>();
  return {
    of: (jobId: string, node: number): CheckpointCollector => {
      // A collector knows the files of one machine, and each placement has another.
      const place = placeOf(jobId, node);
      const name = `${jobId} ${node} ${place.placement}`;
      let collector = made.get(name);
      if (!collector) {
        const checkpoints = homeLayout.checkpoints(home, jobId);
        const targetDir = join(checkpoints, nodeFolder(node));
        mkdirSync(targetDir, { recursive: true, mode: 0o700 });
        made.set(
          name,
          (collector = new CheckpointCollector({
            targetDir,
            now: Date.now,
            given: resumes.given(jobId),
            announced: () => resumes.announced(jobId),
            place: place.nodes > 1 ? { ...place, checkpoints } : undefined,
            placements: {
              present: place.placement,
              of: (path) => savedBy(jobId, nodeFolder(node) + path),
            },
            keep: keepOf(jobId, node),
            unfetched: (seen) => unfetched(jobId, seen),
          })),
        );
      }
      return collector;
    },
    forget: (jobId: string): void => {
      for (const name of made.keys()) if (name.startsWith(`${jobId} `)) made.delete(name);
    },
    stop: async (): Promise<void> => {
      await Promise.all([...made.values()].map((collector) => collector.stop()));
    },
  };
}
