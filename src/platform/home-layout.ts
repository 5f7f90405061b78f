// The layout of a home. Every other file takes its paths from here; `test/tidy.test.ts` holds that.

import { join } from "node:path";

type OfHome = (home: string) => string;
type OfRun = (home: string, jobId: string) => string;
type OfNode = (home: string, jobId: string, node: number) => string;

const below =
  (...names: string[]): OfHome =>
  (home) =>
    join(home, ...names);

const run: OfRun = (home, jobId) => join(home, "runs", jobId);
const artifactsOf: OfRun = (home, jobId) => join(home, "artifacts", jobId);
const node: OfNode = (home, jobId, k) => join(run(home, jobId), `node${k}`);
const inRun =
  (...names: string[]): OfRun =>
  (home, jobId) =>
    join(run(home, jobId), ...names);
const inNode =
  (...names: string[]): OfNode =>
  (home, jobId, k) =>
    join(node(home, jobId, k), ...names);

const choiceName = (placement: number): string => (placement === 1 ? "resume" : `resume-p${placement}`);

/** The path of each file and folder of a home. These functions neither read nor create files. */
export const homeLayout = {
  // The home as a whole.
  store: below("svc.db"),
  backups: below("backups"),
  /** If it exists, the home was used: then a missing store is a loss. */
  installation: below("installation.json"),
  lock: below("lock.db"),
  lockHolder: below("holder.json"),
  /** Space that svc frees when the disk is full. */
  reserve: below("reserve"),
  settings: below("settings.json"),

  // Files of the running control plane.
  controlPlane: below("control-plane.json"),
  /** Output of a control plane that an SDK started. */
  controlPlaneLog: below("control-plane.log"),
  token: below("token"),
  runner: below("runner"),

  // Secrets.
  installationKey: below("installation.key"),
  credentials: below("credentials.json"),
  credentialsLock: below("credentials.lock"),
  registry: below("registry.json"),
  sshKey: below("ssh", "id_ed25519"),
  knownHosts: below("ssh", "known"),

  // Kept after a run.
  logs: below("logs"),
  log: ((home, jobId) => join(home, "logs", `${jobId}.log`)) satisfies OfRun,
  artifacts: below("artifacts"),
  artifactsOf,
  checkpoints: ((home, jobId) => join(artifactsOf(home, jobId), "checkpoints")) satisfies OfRun,
  /** The checkpoints that the script has called complete. */
  announced: ((home, jobId) => join(artifactsOf(home, jobId), "announced.jsonl")) satisfies OfRun,
  sinkSecrets: ((home, jobId) => join(home, "sinks", `${jobId}.sealed`)) satisfies OfRun,

  // Needed until a run has ended.
  runs: below("runs"),
  run,
  runSecrets: inRun("secrets.sealed"),
  /** The checkpoint from which a placement resumes, and below it the folder of its files. */
  resumeChoice: (home: string, jobId: string, placement: number) =>
    join(run(home, jobId), `${choiceName(placement)}.json`),
  resumeFiles: (home: string, jobId: string, placement: number) => join(run(home, jobId), choiceName(placement)),
  pinnedData: (home: string, jobId: string, name: string) => join(run(home, jobId), "data", `${name}.json`),
  stage: ((home, jobId, k) => join(run(home, jobId), `stage${k}`)) satisfies OfNode,
  node,
  nodeCheckpoints: inNode("checkpoints"),
  nodeData: inNode("data"),

  // Shared by runs.
  code: below("code"),
  data: below("data"),
  dataManifest: (home: string, name: string) => join(home, "data", `${name}.json`),
  models: below("models"),
  hub: below("hub"),
  pulls: below("hub", "pulls"),
  adoptedModels: below("hub", "adopted.json"),
};

/** The folders that every home has. */
export const homeFolders = (home: string): string[] =>
  [homeLayout.logs, homeLayout.runs, homeLayout.artifacts, homeLayout.code, homeLayout.backups].map((of) => of(home));

/** The folders and files of a home that belong to one run. */
export const pathsOfRun = (home: string, jobId: string): string[] =>
  [homeLayout.artifactsOf, homeLayout.run, homeLayout.log, homeLayout.sinkSecrets].map((of) => of(home, jobId));

/** The manifest of a code snapshot in the code folder of a home. */
export const snapshotFile = (codeDir: string, id: string): string => join(codeDir, "snapshots", `${id}.json`);
