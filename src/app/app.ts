// The composition root: the one file that names every concrete part and connects them.

import { runsHere, THIS_COMPUTER } from "../providers/descriptors.ts";
import { createHmac } from "node:crypto";
import { statSync } from "node:fs";
import { setGlobalProxyFromEnv } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { customAlphabet } from "nanoid";
import { localCalendar } from "../domain/calendar.ts";
import type { Clock } from "../domain/clock.ts";
import { JobIds } from "../domain/ids.ts";
import { installationPrefix } from "../domain/machine-names.ts";
import { placedProgram, pythonProgram } from "../platform/python-program.ts";
import { keepFilesPrivate } from "../platform/own-umask.ts";
import { proxyEnvOf } from "../domain/proxy-env.ts";
import { providersOf } from "../domain/candidates.ts";
import { Redactor } from "../domain/redaction.ts";
import { onTightened } from "../domain/tightened.ts";
import { isReference } from "../domain/secret-names.ts";
import { steadyClock } from "../platform/steady-clock.ts";
import type { ControlPlane } from "../engine/control-plane.ts";
import { Budgets } from "../engine/budgets.ts";
import { FreedMachines } from "../engine/freed-machines.ts";
import { LimitKeeper } from "../engine/home-limits.ts";
import { Engine } from "../engine/engine.ts";
import { DurableHosts } from "../engine/hosts.ts";
import { DurableLedger } from "../engine/ledger.ts";
import { removeRunFolder, removeRunFolders } from "../engine/run-folders.ts";
import { Resumes } from "../steps/checkpoints/resume-choices.ts";
import { Service } from "../engine/service.ts";
import { DurableStorySink } from "../engine/run-log-writer.ts";
import { asSvcError, SvcError } from "../errors/index.ts";
import { findPython } from "../providers/local/python.ts";
import { LocalProvider } from "../providers/local/provider.ts";
import { whyNotOthers, withoutOthers, type Provider } from "../providers/provider.ts";
import { bootstrapOf } from "../providers/notebook/bootstrap.ts";
import { notebook } from "../providers/notebook/descriptor.ts";
import { describeProviders } from "../providers/registry.ts";
import { credentialDesk } from "./credentials.ts";
import { checkConnected, remoteMachines, remoteProviders } from "./rented.ts";
import type { HubPullHint } from "../schemas/hub.ts";
import { localPython, searchPathOf } from "../steps/launch/local-python.ts";
import { manifestSeal, shownSecrets } from "./shown-secrets.ts";
import { preview } from "./preview.ts";
import { homeDefaults } from "./home-defaults.ts";
import { modelsOfHub } from "./hub.ts";
import { renewGuards } from "./renew-guards.ts";
import { RetentionKeeper } from "./retention.ts";
import { runServices } from "./runs.ts";
import { notificationsOf } from "./notify.ts";
import { sinksOf } from "./sinks.ts";
import { providerSources, readCredential } from "../secrets/credentials.ts";
import { installationKey } from "../secrets/installation-key.ts";
import { resolveSecret } from "../secrets/resolve.ts";
import { KnownSecrets, shownAmong } from "../secrets/known.ts";
import { secretsOfSpec } from "../secrets/of-spec.ts";
import { sealSpec, unsealSpec } from "../secrets/sealed-spec.ts";
import { injectedVariables } from "../secrets/services.ts";
import { awaitSshStep } from "../steps/await-ssh.ts";
import { withHostVerdicts } from "../steps/rental/host-verdicts.ts";
import { withHiddenWords } from "../steps/redact-step.ts";
import { createSnapshot } from "../files/code/code-snapshot.ts";
import { collectGarbage, holdCode } from "../files/code/collect-garbage.ts";
import { checkData, pinData } from "../files/data/pin.ts";
import { checkEntrypoint, checkInterpreter } from "../files/entrypoint.ts";
import { exampleIn } from "../files/example-project.ts";
import { leftOutOf } from "../files/listing/left-out.ts";
import { IN_PLACE, measureProject } from "../files/listing/measured-project.ts";
import { checkProjectDir } from "../files/listing/project-files.ts";
import { installCommand } from "../steps/launch/install-command.ts";
import { placeStep } from "../steps/place.ts";
import { provisionStep } from "../steps/provision.ts";
import type { RunServices } from "../steps/run-services.ts";
import { collectStep } from "../steps/collect.ts";
import { installStep } from "../steps/install.ts";
import { launchStep } from "../steps/launch.ts";
import { streamStep } from "../steps/stream.ts";
import type { StepDefinition, StepRegistry } from "../steps/step.ts";
import { syncStep } from "../steps/sync.ts";
import { terminateStep } from "../steps/terminate.ts";
import { CheckpointRemovalStore } from "../store/checkpoint-removal-store.ts";
import { openStore, prepareHome } from "../store/database.ts";
import { DiskReserve } from "../store/disk-reserve.ts";
import { EngineStore } from "../store/engine-store.ts";
import { HomeLock } from "../store/home-lock.ts";
import { StoreReads } from "../store/open-reads.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { homeLayout } from "../platform/home-layout.ts";

/**
 * `serve`: drive every job and stay. `reconcile`: drive every job that can be driven and end. `kill`: end some jobs,
 * leave the others' rows unchanged. `look`: change nothing.
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
  /** The purpose of this process; `serve` by default. */
  purpose?: Purpose;
  env?: NodeJS.ProcessEnv;
  /** Makes a new store for the installation of a used home that has lost its own. */
  newStore?: boolean;
  /** The clock; a test may use a faster one. */
  clock?: Clock;
}

export interface OpenControlPlane extends ControlPlane {
  /** The jobs that recovery found. */
  readonly recovered: { resumed: string[]; parked: string[] };
  /** Records the address of this control plane, for the error of a second one. */
  announce(url: string): void;
  /**
   * Resolves when every job is as far as it gets without supervision: ended, or with its script running. True unless
   * the deadline came first.
   */
  settle(deadlineMs: number): Promise<boolean>;
  /** Leaves every row unchanged and frees the home. */
  close(): Promise<void>;
}

/** The program's folder, which contains package.json: in a checkout and next to a bundle. */
export const programRoot = ((): string => {
  let folder = dirname(fileURLToPath(import.meta.url));
  // An unreadable folder is an error and must not be skipped: a folder further up belongs to another program, or to
  // none.
  const isRoot = (at: string): boolean => statSync(join(at, "package.json"), { throwIfNoEntry: false }) !== undefined;
  while (!isRoot(folder) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
})();

const newInstallationId = customAlphabet("0123456789abcdefghijklmnopqrstuvwxyz", 16);

/**
 * Locks the home, opens its store and recovers open jobs. If it cannot, throws an error with a remedy and changes
 * nothing.
 */
export async function openControlPlane(options: ControlPlaneOptions): Promise<OpenControlPlane> {
  try {
    return await openHome(options);
  } catch (e) {
    // A full disk must not prevent the start of a control plane: it may have machines to release.
    if (asSvcError(e).code !== "disk_full") throw e;
    const reserve = new DiskReserve(options.home);
    if (!reserve.stands) throw cannotStart(options.home, e);
    reserve.spend();
    return openHome(options).catch((again: unknown) => {
      throw asSvcError(again).code === "disk_full" ? cannotStart(options.home, again) : again;
    });
  }
}

const cannotStart = (home: string, cause: unknown) =>
  new SvcError("disk_full", { path: home, starting: true }, { cause });

async function openHome(options: ControlPlaneOptions): Promise<OpenControlPlane> {
  const { home, purpose = "serve" } = options;
  const env = options.env ?? process.env;
  const proxy = proxyEnvOf(env);
  // For callers of `fetch`: sinks of Google's store. All other code names the proxy when it connects.
  if (proxy !== undefined) setGlobalProxyFromEnv({ ...proxy });
  const known = new KnownSecrets({ home, env });
  const log = (line: string): void => options.log?.(known.redactor().redactText(line));
  onTightened(log);
  keepFilesPrivate();
  prepareHome(home);
  const startedAt = new Date().toISOString();
  const holder = { pid: process.pid, command: `svc ${purpose}`, started_at: startedAt, url: null };
  const lock = HomeLock.take(home);
  try {
    const reserve = new DiskReserve(home);
    reserve.spendIfFull();
    if (!lock.announce(holder))
      log(
        "The disk of the home is full: a second control plane is refused, and cannot say which process is the first.",
      );
    const clock = options.clock ?? steadyClock();
    const { newStore = false } = options;
    const opening = { newInstallationId: newInstallationId(), now: clock.now(), newStore };
    const store = new EngineStore(await openStore(home, opening));
    const reads = new StoreReads(store.db, home, clock.now, shownSecrets(home, known));
    let service: Service | null = null;
    const notifications: ReturnType<typeof notificationsOf> = notificationsOf({
      home,
      env,
      clock,
      store,
      engine: () => engine,
      reads,
      redactor: () => known.redactor(),
      remember: (values) => {
        if (known.remember(values)) known.lookAgain();
      },
      learnFrom: (learn) => known.learnFrom(learn),
      report: log,
    });
    const engine: Engine = new Engine({
      store,
      clock,
      steps: lazily(() => steps),
      defer: (fn) => void setImmediate(fn),
      publish: (events) => {
        service?.publish(events);
        budgets.heard(events);
        limits.heard(events);
        freed.heard(events);
      },
      holds: (tx, job) => limits.holds(tx, job),
      noticed: (tx, event) => notifications.outbox.heard(tx, event),
      report: log,
      onDiskFull: () => reserve.spend(),
    });
    const freed = new FreedMachines(engine);
    const ledger = new DurableLedger(engine);
    const startTimes = (provider: string, gpus: string) => reads.startTimes(provider, gpus);
    const budgets: Budgets = new Budgets({ engine, startTimes, report: log });
    const startSeconds = (provider: string, gpus: string) => startTimes(provider, gpus)?.seconds ?? null;
    const limits: LimitKeeper = new LimitKeeper({ engine, calendar: localCalendar, startSeconds, report: log });
    const sink = new DurableStorySink({
      engine,
      home,
      hint: (hint) => service?.publish([hint]),
      watch: (tx, jobId, records) => notifications.watch.points(tx, jobId, records),
    });
    const python = async () => (await findPython(env)).path;
    const runner = pythonProgram(join(programRoot, "runner", "svc_runner"));
    const runnerPath = placedProgram(runner, homeLayout.runner(home));
    const agentText = () => pythonProgram(join(programRoot, "runner", "svc_agent")).text;
    const gateText = () => pythonProgram(join(programRoot, "runner", "svc_gate")).text;
    const machines = remoteMachines({ home, env, runner, agentText, gateText });
    const prefix = installationPrefix(store.installationId);
    const providers = new Map<string, Provider>([
      [THIS_COMPUTER, new LocalProvider({ home, runnerPath, python, prefix })],
      ...remoteProviders({ home, env, clock, machines }),
    ]);
    const hosts: DurableHosts = new DurableHosts({
      engine,
      ledger,
      gpusOf: (jobId) => services.facts(jobId).spec.gpus,
      report: log,
      without: (offers, from, reasons) => withoutOthers(offers, [...whyNotOthers(from), ...reasons]),
    });
    for (const provider of providers.values()) hosts.attendTo(provider);
    const key = installationKey(home);
    const checkpointRemovals = new CheckpointRemovalStore(store.db);
    const resumes = new Resumes(
      home,
      (jobId) => {
        const row = engine.store.job(jobId);
        return row ? unsealSpec(specOf(row), key) : null;
      },
      (jobId) => Math.max(1, engine.placement(jobId).n),
      (jobId) => new Set(checkpointRemovals.open(jobId).map(({ name }) => name)),
      (jobId) => sink.placementsOf(jobId),
    );
    const sinks = sinksOf({ home, env, clock, engine, key, logBytes: (jobId) => reads.logBytes(jobId), report: log });
    const gone = (machine: string): void => machines.forget(machine);
    const manifests = manifestSeal(home, known);
    const parts = {
      home,
      env,
      programRoot,
      key,
      known,
      manifests,
      engine,
      ledger,
      sink,
      sinks,
      hosts,
      providers,
      resumes,
      budget: budgets,
      python,
      gone,
      points: (jobId: string, metric: string) =>
        (reads.metrics(jobId, { name: metric }).series[metric] ?? []).flatMap(({ step, value }) =>
          typeof value === "number" ? [{ step, value }] : [],
        ),
    };
    const services: ReturnType<typeof runServices> = runServices(parts);
    const steps = stepRegistry(services, known);
    const { installationId } = store;
    const publish = (hint: HubPullHint): void => service?.publish([hint]);
    const hub = modelsOfHub({ home, env, clock, engine, installationId, publish, log });
    const retention: RetentionKeeper = new RetentionKeeper({
      engine,
      clock,
      wall: options.clock === undefined ? Date.now : clock.now,
      reads,
      remove: (jobId, rule) => opened.remove(jobId, rule),
      notice: (tx, found) => void notifications.outbox.add(tx, found),
      report: log,
    });
    service = new Service({
      hub,
      retention,
      notifications: notifications.service,
      limits,
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
        stored: notifications.configured,
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
        const entry = await checkEntrypoint(projectDir, spec.entrypoint);
        if (runsHere(spec.provider)) {
          const path = searchPathOf(spec, env);
          await checkInterpreter(projectDir, spec.entrypoint, entry, path);
          await localPython({ spec, projectDir, entry, env, otherwise: python });
        } else for (const name of providersOf(spec)) await machines.key(name);
      },
      rateOf: (provider) => {
        const rate = Number(readCredential(provider, { home, env }).given.settings["rate_usd_per_hour"]);
        return Number.isFinite(rate) && rate > 0 ? rate : null;
      },
      checkCredential: (provider) => checkConnected(provider, { home, env }),
      measureProject: async (projectDir, inPlace) => {
        const root = await checkProjectDir(projectDir, home);
        const { files, bytes, ...listing } = await measureProject(root, {
          ignored: true,
          ...(inPlace ? IN_PLACE : {}),
        });
        return { files, bytes, leftOut: leftOutOf(listing), missed: listing.leftOut.filter((e) => e.missed).length };
      },
      preview: (projectDir, spec, files) => preview({ projectDir, spec, files, env, python }),
      example: () => exampleIn(programRoot),
      snapshot: async (projectDir, spec) => {
        const codeDir = homeLayout.code(home);
        // A local run starts a file in the directory itself; other runs can only start a file that is sent.
        const file = runsHere(spec.provider) ? undefined : await fileOf(projectDir, spec.entrypoint);
        const sent = file === undefined ? {} : { entrypoint: file };
        const hold = holdCode(codeDir);
        try {
          const inPlace = runsHere(spec.provider);
          const made = await createSnapshot({
            projectDir,
            codeDir,
            now: Date.now(),
            hold,
            manifests,
            inPlace,
            ...sent,
          });
          // Refused here, before a machine is rented.
          if (!inPlace) await installCommand(spec, { codeDir, id: made.id, manifests }, projectDir);
          return { id: made.id, leftOut: made.leftOut, release: () => hold.release() };
        } catch (e) {
          hold.release();
          throw e;
        }
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
      remember: (spec) => known.remember(secretsOfSpec(spec, { home, env })),
      secrets: (also) =>
        also === undefined
          ? known.redactor()
          : new Redactor([...known.all(), ...shownAmong(secretsOfSpec(also, { home, env }))]),
      seal: (spec) => sealSpec(spec, installationKey(home), known.redactor()),
      fingerprint: (text) => createHmac("sha256", installationKey(home)).update(text).digest("hex"),
      checkResume: (spec) => resumes.checkSpec(spec),
      resumes,
      checkData: (names) => checkData(home, names),
      pinData: (jobId, names) => pinData(home, jobId, names),
      onTerminal: (jobId) => {
        sink.forget(jobId);
        resumes.forget(jobId);
        services.forget(jobId);
        removeRunFolder(store, home, jobId, log);
      },
      report: log,
      sinks,
      defaults: () => homeDefaults(home),
      respec: (jobId) => services.respec(jobId),
      renewGuards: (jobId) => renewGuards(services, ledger, jobId),
      forget: (jobId) => {
        sink.forget(jobId);
        resumes.forget(jobId);
        services.forget(jobId);
      },
      collectCode: async () => {
        const { kept } = await collectGarbage({ codeDir: homeLayout.code(home), inUse: () => store.codeInUse() });
        if (kept !== null) log(`Code of removed runs was kept: ${kept}.`);
      },
    });
    for (const row of store.liveJobs()) known.remember(secretsOfSpec(unsealSpec(specOf(row), key), { home, env }));
    const recovered = await engine.recover(RECOVERED[purpose]);
    if (purpose === "serve") {
      removeRunFolders(store, home, log);
      service.begin();
      hub.begin();
      notifications.begin();
      limits.begin();
      retention.begin();
    }
    if (purpose === "serve" || purpose === "reconcile") budgets.begin();
    const opened: Service = service;
    opened.subscribe((event) => hosts.heard(event));
    return Object.assign(opened, {
      recovered,
      announce: (url: string) => void lock.announce({ ...holder, url }),
      notebookBootstrap: async () => bootstrapOf((await machines.key(notebook.name)).publicKeyLine),
      close: async () => {
        await hub.stop();
        budgets.stop();
        limits.stop();
        await retention.stop();
        await notifications.stop();
        await opened.stop();
        await services.stop();
        await sink.close();
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

/** Breaks a cycle: steps need the engine's ledger and sink, the engine needs the steps. */
function lazily(make: () => StepRegistry): StepRegistry {
  return new Proxy({} as StepRegistry, { get: (_, name) => make()[name as keyof StepRegistry] });
}

function stepRegistry(services: RunServices, known: KnownSecrets): StepRegistry {
  /** For steps that call the provider. */
  const quiet = (step: StepDefinition) => withHiddenWords(step, () => known.redactor(), { output: false });
  /** For steps that talk to the machine. */
  const hidden = (step: StepDefinition) => withHiddenWords(step, (jobId) => services.secrecy(jobId).redactor);
  /** For steps that may find a fault of the machine's host. */
  const judging = (step: StepDefinition) => withHostVerdicts(hidden(step), services);
  return {
    place: quiet(placeStep(services)),
    provision: quiet(provisionStep(services)),
    await_ssh: judging(awaitSshStep(services)),
    sync: judging(syncStep(services)),
    install: hidden(installStep(services)),
    launch: judging(launchStep(services)),
    stream: hidden(streamStep(services)),
    collect: hidden(collectStep(services)),
    terminate: quiet(terminateStep(services)),
  };
}

/** The entrypoint's file in the project; undefined for a module. */
async function fileOf(projectDir: string, entrypoint: string): Promise<string | undefined> {
  const entry = await checkEntrypoint(projectDir, entrypoint);
  return entry.kind === "module" ? undefined : entry.path;
}
