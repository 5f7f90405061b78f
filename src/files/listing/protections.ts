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

export const never = new IgnoreRules(NEVER.join("\n"));
export const secrets = new IgnoreRules(SECRET_FILES.join("\n"));
export const madeAgain = new IgnoreRules(MADE_AGAIN.join("\n"));
export const madeBySvc = new IgnoreRules(MADE_BY_SVC.join("\n"));

/** False if no rule of these lists can match the last name of the path: this alone settles most names. */
const SUSPECT =
  /^\.|^id_|\.(?:tfstate|kdbx|pem|p12|pfx|ppk|pyc)$|^(?:node_modules|__pycache__|venv|Thumbs\.db|checkpoints-local|gcloud)$/;
const codesOf = (letters: string): Set<number> => new Set(Buffer.from(letters, "latin1"));
const FIRST = codesOf("._inTvcg");
const LAST = codesOf("exm2kc");

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
  svcignore: "a .svcignore leaves it out",
  odd: "it is neither a file nor a folder",
  notUtf8: "its name is not UTF-8",
  unreadable: "it cannot be read: permission denied",
} as const;
