// What svc leaves out of the code of a run by itself, whatever git says of it.

import { IgnoreRules } from "../../domain/gitignore.ts";

/** Left out whatever any file says: version control, and folders of keys. */
export const NEVER = [".git", ".hg", ".svn", ".ssh", ".gnupg", ".aws", ".kube", ".svc"];

/** Secrets: left out, also where git tracks them, unless a `.svcignore` takes them back with `!name`. */
export const SECRETS = [
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

/** What can be made again on each machine: left out where git does not track it, unless a `.svcignore` takes it back. */
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
 * svc puts a file of this name into each folder that it makes in a project (python/svc/_checkpoints.py does). Such a folder is no
 * code, whatever it is called. The others are what versions before that file was introduced left behind.
 */
export const MARK_OF_SVC = ".svc-made";
const OLD_MARKS = [".svc-checkpoints.jsonl", ".svc-installed"];
export const MARKS_OF_SVC: readonly string[] = [MARK_OF_SVC, ...OLD_MARKS];
/** What svc makes in a project under a name of its own. */
export const MADE_BY_SVC = ["checkpoints-local/", ".svc-*", ".*.svc-*/"];

export const never = new IgnoreRules(NEVER.join("\n"));
export const secrets = new IgnoreRules(SECRETS.join("\n"));
export const madeAgain = new IgnoreRules(MADE_AGAIN.join("\n"));
export const madeBySvc = new IgnoreRules(MADE_BY_SVC.join("\n"));

/** False where no rule of these lists can speak of the last name of the path: most names are told apart by this alone. */
const SUSPECT =
  /^\.|^id_|\.(?:tfstate|kdbx|pem|p12|pfx|ppk|pyc)$|^(?:node_modules|__pycache__|venv|Thumbs\.db|checkpoints-local|gcloud)$/;
const codesOf = (letters: string): Set<number> => new Set(Buffer.from(letters, "latin1"));
const FIRST = codesOf("._inTvcg");
const LAST = codesOf("exm2kc");

export function mayBeProtected(path: string): boolean {
  const start = path.lastIndexOf("/") + 1;
  // Its first and its last letter tell most names apart, at a fraction of the price.
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
