// The composition root: the one file that names every concrete part and puts them together.

import { createHmac } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as pause } from "node:timers/promises";
import { customAlphabet } from "nanoid";
import type { Clock } from "./domain/clock.ts";
import { JobIds } from "./domain/ids.ts";
import { installationPrefix } from "./domain/machine-names.ts";
import { Redactor } from "./domain/redaction.ts";
import { holdsSecret, isReference, secretParts } from "./domain/secret-names.ts";
import { steadyClock } from "./domain/steady-clock.ts";
import { assert } from "./errors/assert.ts";
import type { ControlPlane } from "./engine/control-plane.ts";
import { Engine } from "./engine/engine.ts";
import { DurableLedger } from "./engine/ledger.ts";
import { removeRunFolder, removeRunFolders } from "./engine/run-folders.ts";
import { Resumes } from "./engine/resumes.ts";
import { Service } from "./engine/service.ts";
import { DurableStorySink } from "./engine/story-sink.ts";
import { asSvcError, SvcError } from "./errors/index.ts";
import { GUARD_GRACE_SECONDS_MIN, guardDir } from "./providers/guard.ts";
import { findPython } from "./providers/local/python.ts";
import { LocalProvider } from "./providers/local/local-provider.ts";
import type { MachineHandle, Provider } from "./providers/provider.ts";
import { bootstrapOf } from "./providers/notebook/bootstrap.ts";
import { describeProviders } from "./providers/registry.ts";
import { credentialDesk } from "./app-credentials.ts";
import { checkConnected, remoteMachines, remoteProviders, type RemoteMachinesOf } from "./app-rented.ts";
import type { HubPullHint } from "./schemas/hub.ts";
import { modelsOfHub } from "./app-hub.ts";
import { sinksOf } from "./app-sinks.ts";
import type { RunSpec } from "./schemas/spec.ts";
import { providerSources } from "./secrets/credentials.ts";
import { installationKey } from "./secrets/installation-key.ts";
import { resolveSecret } from "./secrets/resolve.ts";
import { sealSpec, unsealSpec } from "./secrets/sealed-spec.ts";
import { seal, unseal, type Given } from "./secrets/sealed.ts";
import { injectedVariables, type Injected } from "./secrets/services.ts";
import type { Sinks } from "./sinks/sinks.ts";
import { awaitSshStep } from "./steps/await-ssh.ts";
import { ClosedWays } from "./steps/closed-ways.ts";
import { CheckpointCollector } from "./steps/collect-checkpoints.ts";
import { createSnapshot } from "./files/code-snapshot.ts";
import { checkData, pinData, pinnedData } from "./files/data-pin.ts";
import { nodeFolder } from "./steps/follow.ts";
import { heldHandle } from "./steps/held-machine.ts";
import { entrypointIn, installCommand } from "./steps/install-command.ts";
import { checkEntrypoint, checkProjectDir, exampleIn, listProject } from "./files/project-files.ts";
import type { JobFacts } from "./steps/ports.ts";
import { provisionStep } from "./steps/provision.ts";
import { idleWindowMs, planRun } from "./steps/run-plan.ts";
import type { RunServices } from "./steps/run-services.ts";
import { collectStep, installStep, launchStep, streamStep } from "./steps/run-steps.ts";
import type { StepRegistry } from "./steps/step.ts";
import { syncStep } from "./steps/sync.ts";
import { terminateStep } from "./steps/terminate.ts";
import { HomeLock, openStore, prepareHome } from "./store/database.ts";
import { DiskReserve } from "./store/disk-reserve.ts";
import { EngineStore } from "./store/engine-store.ts";
import { StoreReads } from "./store/open-reads.ts";

/**
 * `serve`: drive every job and stay. `reconcile`: drive what can be driven and end. `kill`: end some jobs, leave the others' rows
 * exactly as they are. `look`: change nothing.
 */
export type Purpose = "serve" | "reconcile" | "kill" | "look";
const RECOVERED: Record<Purpose, Parameters<Engine["recover"]>[0]> = {
  serve: "all",
  reconcile: "all",
  kill: "ending only",
  look: "nothing",
};

export interface ControlPlaneOptions {
  home: string;
  log?: (line: string) => void;
  /** What this process is for; `serve` unless said. */
  purpose?: Purpose;
  env?: NodeJS.ProcessEnv;
  /** Time itself; a test may let it run faster. */
  clock?: Clock;
}

export interface OpenControlPlane extends ControlPlane {
  /** What recovery found. */
  readonly recovered: { resumed: string[]; parked: string[] };
  /** Says where this control plane answers, for the message that a second one gives. */
  announce(url: string): void;
  /**
   * Resolves when every job has come as far as it can without being watched: over, or with its script at work. True unless the
   * deadline came first.
   */
  settle(deadlineMs: number): Promise<boolean>;
  /** Leaves every row as it is and frees the home. */
  close(): Promise<void>;
}

/** Where the program lies: the folder that holds package.json, in a checkout and beside a bundle. */
export const programRoot = ((): string => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json")) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
})();

const newInstallationId = customAlphabet("0123456789abcdefghijklmnopqrstuvwxyz", 16);

/** Takes the home, opens its store, recovers what was open. Throws with a remedy and changes nothing where it cannot. */
export async function openControlPlane(options: ControlPlaneOptions): Promise<OpenControlPlane> {
  try {
    return await openHome(options);
  } catch (e) {
    // A disk that filled up must not keep a control plane from starting: it may have machines to give back.
    const reserve = new DiskReserve(options.home);
    if (asSvcError(e).code !== "disk_full" || !reserve.stands) throw e;
    reserve.spend();
    return openHome(options);
  }
}

async function openHome(options: ControlPlaneOptions): Promise<OpenControlPlane> {
  const { home, log = () => {}, purpose = "serve" } = options;
  const env = options.env ?? process.env;
  process.umask(0o077);
  prepareHome(home);
  const startedAt = new Date().toISOString();
  const holder = { pid: process.pid, command: `svc ${purpose}`, started_at: startedAt, url: null };
  const lock = HomeLock.take(home, holder);
  try {
    const clock = options.clock ?? steadyClock();
    const store = new EngineStore(await openStore(home, { newInstallationId: newInstallationId(), now: clock.now() }));
    const reads = new StoreReads(store.db, home, clock.now);
    const reserve = new DiskReserve(home);
    let service: Service | null = null;
    const engine: Engine = new Engine({
      store,
      clock,
      steps: lazily(() => steps),
      defer: (fn) => void setImmediate(fn),
      publish: (events) => service?.publish(events),
      report: log,
      onDiskFull: () => reserve.spend(),
    });
    const ledger = new DurableLedger(engine);
    const sink = new DurableStorySink({ engine, home, hint: (hint) => service?.publish([hint]) });
    const python = async () => (await findPython(env)).path;
    const runnerPath = join(programRoot, "runner", "svc_runner.py");
    const machines = remoteMachines({ home, env, programRoot });
    const prefix = installationPrefix(store.installationId);
    const providers = new Map<string, Provider>([
      ["local", new LocalProvider({ home, runnerPath, python, prefix })],
      ...remoteProviders({ home, env, clock, machines }),
    ]);
    const resumes = new Resumes(home, (jobId) => {
      const row = engine.store.job(jobId);
      // Checked against the schema when it was submitted, and written by us since.
      return row ? (JSON.parse(row.spec) as RunSpec) : null;
    });
    const key = installationKey(home);
    const sinks = sinksOf({ home, env, clock, engine, key, logBytes: (jobId) => reads.logBytes(jobId), report: log });
    const parts = { home, env, key, engine, ledger, sink, sinks, providers, resumes, python, machines };
    const services = runServices(parts);
    const steps = stepRegistry(services);
    const { installationId } = store;
    const publish = (hint: HubPullHint): void => service?.publish([hint]);
    const hub = modelsOfHub({ home, env, clock, engine, installationId, publish, log });
    service = new Service({
      hub,
      home,
      startedAt,
      engine,
      reads,
      ledger,
      reserve,
      providers,
      newJobId: (
        (ids) => () =>
          ids.next()
      )(new JobIds(clock.now)),
      credentials: credentialDesk({
        home,
        env,
        clock,
        publicKey: async (name) => (await machines.key(name)).publicKeyLine,
        log,
        machinesOf: (name) => reads.machines().filter((m) => m.provider === name).length,
      }),
      describeProviders: () => describeProviders(providers, providerSources(home, env)),
      checkProject: async (projectDir, spec) => {
        await checkProjectDir(projectDir, home);
        await checkEntrypoint(projectDir, spec.entrypoint);
        if (spec.provider === "local") await python();
        else await machines.key(spec.provider);
      },
      checkCredential: (provider) => checkConnected(provider, { home, env }),
      measureProject: async (projectDir) => {
        const { files, bytes, skipped } = await listProject(await checkProjectDir(projectDir, home));
        return { files, bytes, skipped: skipped.length };
      },
      example: () => exampleIn(programRoot),
      snapshot: async (projectDir, spec) => {
        const codeDir = join(home, "code");
        // What a local run starts lies in the directory itself; elsewhere only what is sent can be started.
        const file = spec.provider === "local" ? undefined : await fileOf(projectDir, spec.entrypoint);
        const sent = file === undefined ? {} : { entrypoint: file };
        return (await createSnapshot({ projectDir, codeDir, now: Date.now(), ...sent })).id;
      },
      checkSecrets: (spec) => {
        injectedVariables({ home, env });
        for (const [name, value] of Object.entries(spec.env)) {
          if (!isReference(value)) continue;
          try {
            resolveSecret(value, home, env);
          } catch (e) {
            const { code, data, message } = asSvcError(e);
            throw new SvcError(code, data, { cause: e, errors: [{ field: `spec.env.${name}`, message }] });
          }
        }
      },
      seal: (spec) => sealSpec(spec, installationKey(home)),
      fingerprint: (text) => createHmac("sha256", installationKey(home)).update(text).digest("hex"),
      checkResume: async (jobId) => void (await resumes.check(jobId)),
      checkData: (names) => checkData(home, names),
      pinData: (jobId, names) => pinData(home, jobId, names),
      onTerminal: (jobId) => {
        sink.forget(jobId);
        resumes.forget(jobId);
        services.forget(jobId);
        removeRunFolder(store, home, jobId, log);
      },
      sinks,
    });
    const recovered = await engine.recover(RECOVERED[purpose]);
    if (purpose === "serve") {
      removeRunFolders(store, home, log);
      service.begin();
      hub.begin();
    }
    const opened: Service = service;
    return Object.assign(opened, {
      recovered,
      announce: (url: string) => lock.announce({ ...holder, url }),
      notebookBootstrap: async () => bootstrapOf((await machines.key("notebook")).publicKeyLine),
      close: async () => {
        await hub.stop();
        await opened.stop();
        machines.close();
        store.db.close();
        lock.release();
      },
    });
  } catch (e) {
    lock.release();
    throw e;
  }
}

/** Breaks the circle: steps need the engine's ledger and sink, the engine needs the steps. */
function lazily(make: () => StepRegistry): StepRegistry {
  return new Proxy({} as StepRegistry, { get: (_, name) => make()[name as keyof StepRegistry] });
}

function stepRegistry(services: RunServices): StepRegistry {
  return {
    provision: provisionStep(services),
    await_ssh: awaitSshStep(services),
    sync: syncStep(services),
    install: installStep(services),
    launch: launchStep(services),
    stream: streamStep(services),
    collect: collectStep(services),
    terminate: terminateStep(services),
  };
}

/** The entrypoint's file in the project; undefined for a module. */
async function fileOf(projectDir: string, entrypoint: string): Promise<string | undefined> {
  const entry = await checkEntrypoint(projectDir, entrypoint);
  return entry.kind === "module" ? undefined : entry.path;
}

interface Parts {
  machines: RemoteMachinesOf;
  home: string;
  env: NodeJS.ProcessEnv;
  engine: Engine;
  ledger: DurableLedger;
  key: Buffer;
  sink: DurableStorySink;
  sinks: Sinks;
  providers: Map<string, Provider>;
  resumes: Resumes;
  python: () => Promise<string>;
}

function runServices(parts: Parts): RunServices & { forget(jobId: string): void } {
  const { home, env, key, engine, providers, resumes } = parts;
  const derive = (...words: string[]): string =>
    createHmac("sha256", key).update(words.join("\0")).digest("hex").slice(0, 32);
  const factsOf = new Map<string, JobFacts>();
  const collectors = new Map<string, CheckpointCollector>();
  const facts = (jobId: string): JobFacts => {
    let known = factsOf.get(jobId);
    if (!known) {
      const row = engine.store.job(jobId);
      assert(row, `job ${jobId} has no row`);
      // Checked against the schema when it was submitted, and written by us since.
      const spec = unsealSpec(JSON.parse(row.spec) as RunSpec, key);
      factsOf.set(jobId, (known = { id: jobId, spec, projectDir: spec.project_dir ?? home }));
    }
    return known;
  };
  const nodeDir = (jobId: string, node: number): string => join(home, "runs", jobId, `node${node}`);
  const secret = (reference: string): string => resolveSecret(reference, home, env);
  /** Hub and tracker; nothing where the store cannot be read (any more): that was said when the run was submitted. */
  const injected = (inPlace: boolean): Injected => {
    try {
      return injectedVariables({ home, env }, { inPlace });
    } catch {
      return { secrets: {}, plain: {} };
    }
  };
  const sealedFile = (jobId: string): string => join(home, "runs", jobId, "secrets.sealed");
  /** What the run may print: what it was given when it was launched, and what the same names say now. */
  const secretsOf = (jobId: string): string[] => {
    const values = [
      ...Object.values(injected(true).secrets),
      ...unseal(sealedFile(jobId), key).map(([, value]) => value),
      ...parts.sinks.secretsOf(jobId, facts(jobId).spec),
    ];
    for (const [name, value] of Object.entries(facts(jobId).spec.env)) {
      if (isReference(value)) {
        try {
          values.push(secret(value));
        } catch {
          continue; // not to be found any more: sealed, if the run was given it
        }
      } else if (holdsSecret(name, value)) values.push(value);
    }
    return values.flatMap(secretParts);
  };
  const guard = (jobId: string, handle: MachineHandle) => {
    const selfEnd = selfEndOf(providers.get(handle.provider), handle.name);
    return selfEnd === null ? null : { graceSeconds: facts(jobId).spec.orphan_grace_minutes * 60, selfEnd };
  };
  const codeOf = (jobId: string) => {
    const id = engine.store.job(jobId)?.code_snapshot;
    assert(id, `job ${jobId} has no code snapshot`);
    return { codeDir: join(home, "code"), id };
  };
  const resumeFrom = async (jobId: string, checkpointDir: string): Promise<string | null> => {
    const chosen = await resumes.of(jobId);
    return chosen === null ? null : `${checkpointDir}/${chosen.name}`;
  };
  /** Where a run lies: in place, or below one folder of its machine. */
  const placeOf = async (jobId: string, node: number, purpose: "run" | "install") => {
    const { spec, projectDir } = facts(jobId);
    const handle = heldHandle(parts.ledger, jobId, node);
    const access = handle === null ? null : providers.get(handle.provider)?.access(handle);
    if (!handle || !access || access.inPlace)
      return {
        projectDir,
        inPlace: true,
        installed: false,
        python: await parts.python(),
        resumeFrom: await resumeFrom(jobId, join(nodeDir(jobId, node), "checkpoints")),
        checkpointDir: join(nodeDir(jobId, node), "checkpoints"),
        dataDir: join(nodeDir(jobId, node), "data"),
        packageDir: join(programRoot, "python"),
        addresses: ["127.0.0.1"],
        inherited: env,
      };
    const { project, checkpoints, data, packages, environment } = access.layout();
    const installed = purpose === "run" && "environment" in (await installCommand(spec, codeOf(jobId)));
    const addresses = Array.from({ length: spec.nodes }, (_, k) => {
      const peer = heldHandle(parts.ledger, jobId, k);
      return spec.nodes === 1 ? "127.0.0.1" : (peer?.extra?.["private_address"] ?? peer?.ssh?.[0]?.host ?? "");
    });
    const grace = guard(jobId, handle)?.graceSeconds;
    const idle_seconds = purpose === "run" ? idleWindowMs(spec) / 1000 : 0;
    return {
      projectDir: project,
      inPlace: false,
      installed,
      python: installed ? `${environment}/bin/python` : (handle.extra?.["python"] ?? "python3"),
      resumeFrom: await resumeFrom(jobId, checkpoints),
      checkpointDir: checkpoints,
      dataDir: data,
      packageDir: packages,
      addresses,
      inherited: {},
      keep:
        grace === undefined
          ? undefined
          : {
              file: `${guardDir(handle.name)}/keep`,
              grace_seconds: Math.max(GUARD_GRACE_SECONDS_MIN, grace),
              idle_seconds,
            },
    };
  };
  const rayToken = (jobId: string): string => derive("ray", jobId);
  const mark = (jobId: string): string => derive("mark", jobId).slice(0, 24);
  return {
    installationId: engine.store.installationId,
    now: engine.clock.now,
    facts,
    provider: (name) => {
      const provider = providers.get(name);
      assert(provider, `there is no provider ${name}`);
      return provider;
    },
    ledger: parts.ledger,
    sink: parts.sink,
    secrecy: (jobId) => ({
      mark: mark(jobId),
      redactor: new Redactor([...secretsOf(jobId), mark(jobId), rayToken(jobId)]),
    }),
    entry: checkEntrypoint,
    ways: new ClosedWays(engine.clock.now),
    gone: (machine) => parts.machines.forget(machine),
    packagesDir: join(programRoot, "python"),
    code: (jobId, node) => ({ ...codeOf(jobId), stageDir: join(home, "runs", jobId, `stage${node}`) }),
    guard,
    installCommand: (jobId, inPlace) => installCommand(facts(jobId).spec, inPlace ? null : codeOf(jobId)),
    plan: async (jobId, node, purpose) => {
      const { spec, projectDir } = facts(jobId);
      const where = await placeOf(jobId, node, purpose);
      const sealed = new Map(unseal(sealedFile(jobId), key));
      const unasked = injected(where.inPlace);
      const given: Given[] = Object.entries(unasked.secrets);
      const plan = planRun({
        jobId,
        node,
        spec,
        entry: await entrypointIn(projectDir, spec.entrypoint),
        ...where,
        mark: mark(jobId),
        nonce: derive("nonce", jobId, String(node), purpose),
        // A launch that is repeated after a restart may find that the environment has changed.
        secret: (reference) => {
          const value = sealed.get(reference) ?? secret(reference);
          given.push([reference, value]);
          return value;
        },
        injected: unasked,
        rayToken: rayToken(jobId),
      });
      // Before anything can be printed.
      seal(sealedFile(jobId), key, given);
      return plan;
    },
    checkpointDir: (jobId, node) => join(nodeDir(jobId, node), "checkpoints"),
    data: (jobId) => pinnedData(home, jobId, facts(jobId).spec.data),
    dataDir: (jobId, node) => join(nodeDir(jobId, node), "data"),
    collector: (jobId, node) => {
      const name = `${jobId} ${node}`;
      let collector = collectors.get(name);
      if (!collector) {
        const whole = join(home, "artifacts", jobId, "checkpoints");
        const targetDir = join(whole, nodeFolder(node));
        mkdirSync(targetDir, { recursive: true, mode: 0o700 });
        const given = resumes.given(jobId);
        collectors.set(name, (collector = new CheckpointCollector({ targetDir, now: Date.now, given })));
      }
      return collector;
    },
    resume: (jobId) => resumes.of(jobId),
    announced: (jobId, node, names) => resumes.announce(jobId, node, names),
    pause: (ms) => pause(ms),
    forget: (jobId) => {
      factsOf.delete(jobId);
      for (const name of collectors.keys()) if (name.startsWith(`${jobId} `)) collectors.delete(name);
    },
  };
}

/** A guard that lives keeps the text it was started with; one that is started while the address is wrong can only wait. */
function selfEndOf(provider: Provider | undefined, machine: string): string | null {
  try {
    return provider?.selfEnd(machine) ?? null;
  } catch (e) {
    if (e instanceof SvcError && e.code === "provider_unavailable")
      return "echo 'where the provider is asked was not known'; return 1";
    throw e;
  }
}
