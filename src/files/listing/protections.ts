// The files that svc itself excludes from the code of a run, whatever git's rules are.

import { IgnoreRules } from "../../domain/gitignore.ts";

/** Always excluded: version control, and folders of keys. */
export const NEVER = [".git", ".hg", ".svn", ".ssh", ".gnupg", ".aws", ".kube", ".svc"];

/** Secrets: excluded, even if git tracks them, unless a `.svcignore` includes them again with `!name`. */
export const SECRET_FILES = [
  ".env",
  ".env.*",
  "!.env.example",
  "!.env.sample",
  "!.env.template",
  ".envrc",
  ".netrc",
  ".pgpass",
  ".pypirc",
  ".git-credentials",
  ".npmrc",
  ".docker/",
  ".azure/",
  ".boto",
  ".s3cfg",
  ".htpasswd",
  ".vault-token",
  ".dockercfg",
  ".dockerconfigjson",
  ".huggingface/",
  ".kaggle/",
  "kaggle.json",
  ".modal.toml",
  ".runpod/",
  ".*_api_key",
  ".*_token",
  ".Renviron",
  "_netrc",
  "rclone.conf",
  "prod.env",
  "production.env",
  "secret.env",
  "secrets.env",
  "credentials.env",
  "credentials.json",
  "credentials.toml",
  "credentials.yaml",
  "credentials.yml",
  "secrets.json",
  "secrets.toml",
  "secrets.yaml",
  "secrets.yml",
  "client.key",
  "private.key",
  "server.key",
  "tls.key",
  "application_default_credentials.json",
  "client_secret*.json",
  "service-account*.json",
  "service_account*.json",
  "*.jks",
  "*.keystore",
  "**/.config/gcloud/",
  "*.tfstate",
  "*.kdbx",
  "id_rsa*",
  "id_dsa*",
  "id_ecdsa*",
  "id_ed25519*",
  "*.pem",
  "*.p12",
  "*.pfx",
  "*.ppk",
];

/** Files that each machine can rebuild: excluded unless git tracks them or a `.svcignore` includes them again. */
export const MADE_AGAIN = [
  "node_modules/",
  "__pycache__/",
  "*.pyc",
  ".venv/",
  "venv/",
  ".ipynb_checkpoints/",
  ".mypy_cache/",
  ".pytest_cache/",
  ".ruff_cache/",
  ".tox/",
  ".DS_Store",
  "Thumbs.db",
];

/**
 * svc puts a file with this name into each folder that it makes in a project (python/svc/_checkpoints.py does). Such a
 * folder is never code, whatever its name. Versions before this file existed left the other marks.
 */
export const MARK_OF_SVC = ".svc-made";
const OLD_MARKS = [".svc-checkpoints.jsonl", ".svc-installed"];
export const MARKS_OF_SVC: readonly string[] = [MARK_OF_SVC, ...OLD_MARKS];
/** Files and folders that svc makes in a project under its own names. */
export const MADE_BY_SVC = ["checkpoints-local/", ".svc-*", ".*.svc-*/"];

/**
 * The name of an environment's own file, under which Python finds it; an environment may have any name. Only a folder with a
 * folder for programs can be one, which is cheap to ask first.
 */
const MARK_OF_ENVIRONMENT = "pyvenv.cfg";
const PROGRAMS_OF_ENVIRONMENT = ["bin", "Scripts"];

/**
 * Folders into which a tracker writes while a script runs, by name, with an entry that only the tracker makes: a folder of
 * configuration or code may have the same name. `lightning_logs` is not one: a script may start from a checkpoint in it.
 */
const RECORDS: ReadonlyMap<string, RegExp> = new Map([
  ["wandb", /^(?:offline-)?run-\d{8}_\d{6}-|^latest-run$/],
  ["mlruns", /^(?:0|\d{18}|\.trash|models)$/],
]);

/** The part of a folder's contents that tells what made it. */
interface Contents {
  readonly anyProtected: boolean;
  find(name: string): string | undefined;
  isFolder(name: string): boolean;
  others(): Iterable<readonly [string, unknown]>;
}

/** Why the untracked files of a folder are excluded for the entries that it has, whatever its name; null if they are not. */
export function madeWhole(name: string, contents: Contents): { why: string; missed: boolean } | null {
  if (contents.anyProtected && MARKS_OF_SVC.some((mark) => contents.find(mark) !== undefined))
    return { why: WHY.madeBySvc, missed: false };
  if (
    PROGRAMS_OF_ENVIRONMENT.some((folder) => contents.isFolder(folder)) &&
    contents.find(MARK_OF_ENVIRONMENT) === "file"
  )
    return { why: WHY.madeAgain, missed: false };
  const mark = RECORDS.get(name);
  if (mark && [...contents.others()].some(([entry]) => mark.test(entry))) return { why: WHY.records, missed: true };
  return null;
}

export const never = new IgnoreRules(NEVER.join("\n"));
export const secrets = new IgnoreRules(SECRET_FILES.join("\n"));
export const madeAgain = new IgnoreRules(MADE_AGAIN.join("\n"));
export const madeBySvc = new IgnoreRules(MADE_BY_SVC.join("\n"));

/** False if no rule of these lists can match the last name of the path: this alone settles most names. */
const SUSPECT =
  /^\.|^id_|\.(?:tfstate|kdbx|pem|p12|pfx|ppk|pyc|jks|keystore)$|^(?:kaggle|client_secret.*|service[-_]account.*|application_default_credentials)\.json$|^(?:_netrc|rclone\.conf)$|^(?:credentials|secrets)\.(?:json|toml|ya?ml)$|^(?:prod|production|secrets?|credentials)\.env$|^(?:client|private|server|tls)\.key$|^(?:node_modules|__pycache__|venv|Thumbs\.db|checkpoints-local|gcloud)$/;
const codesOf = (letters: string): Set<number> => new Set(Buffer.from(letters, "latin1"));
const FIRST = codesOf("._inTvcg");
const LAST = codesOf("exm2kcnsflvy");

export function mayBeProtected(path: string): boolean {
  const start = path.lastIndexOf("/") + 1;
  // The first and the last letter settle most names at a fraction of the cost.
  if (!FIRST.has(path.charCodeAt(start)) && !LAST.has(path.charCodeAt(path.length - 1))) return false;
  return SUSPECT.test(path.slice(start));
}

export const WHY = {
  never: "svc never sends it",
  secret: "it may hold a secret; `!name` in a .svcignore takes it back",
  madeAgain: "it can be made again on the machine; `!name` in a .svcignore takes it back, and so does `git add`",
  madeBySvc: "svc made it",
  records: "an experiment tracker wrote it; `!name` in a .svcignore takes it back, and so does `git add`",
  svcignore: "a .svcignore leaves it out",
  odd: "it is neither a file nor a folder",
  notUtf8: "its name is not UTF-8",
  pointer: "only its pointer of Git LFS is here, and that is sent; `git lfs pull` fetches the content",
  tooLong: "its path is too long to be sent",
  replaced: "a program kept replacing it while svc read the project",
  unreadable: "it cannot be read: permission denied",
} as const;
