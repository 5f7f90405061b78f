// The default credentials of Google's own tools (ADC): the file that a variable names, else the one that
// `gcloud auth application-default login` writes, else the service account of this machine.

import { join } from "node:path";
import { readPlainFile } from "./store-file.ts";
import { knownUserHome } from "../platform/user-home.ts";

const FILE_BYTES_MAX = 64 * 1024;

export interface DefaultCredentials {
  /** Text of a credential file, of whatever kind; null where a variable names a file that is not there. */
  text: string | null;
  /** For messages. */
  where: string;
}

/** Null if there is no such file: then only the machine's own service account remains. Throws `UnusableFile`. */
export function defaultGoogleCredentials(env: NodeJS.ProcessEnv): DefaultCredentials | null {
  const named = env["GOOGLE_APPLICATION_CREDENTIALS"]?.trim();
  const folder = env["CLOUDSDK_CONFIG"]?.trim() || ofUser(env);
  const file = named || (folder && join(folder, "application_default_credentials.json"));
  if (!file) return null;
  const text = readPlainFile(file, { bytesMax: FILE_BYTES_MAX, ownersAlone: false });
  if (named) return { text, where: `${file}, which GOOGLE_APPLICATION_CREDENTIALS names,` };
  return text === null ? null : { text, where: file };
}

const ofUser = (env: NodeJS.ProcessEnv): string | null => {
  const home = knownUserHome(env);
  return home === null ? null : join(home, ".config", "gcloud");
};

/** Represents the machine's own service account, as a credential file would. */
export const OF_THIS_MACHINE = JSON.stringify({ type: "compute_metadata" });
