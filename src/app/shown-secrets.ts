// Masks secrets in output and records, for the control plane and for commands that read the store themselves.

import type { ManifestSeal } from "../files/code/code-snapshot.ts";
import { installationKey } from "../secrets/installation-key.ts";
import { KnownSecrets } from "../secrets/known.ts";
import { sealRecord, unsealRecord } from "../secrets/sealed-record.ts";
import type { ShownSecrets } from "../store/open-reads.ts";

/**
 * For a command: the secrets of the current credentials. Secrets of runs were masked when their records were written.
 */
export const secretsOfHome = (home: string, env: NodeJS.ProcessEnv): ShownSecrets =>
  shownSecrets(home, new KnownSecrets({ home, env }));

export const shownSecrets = (home: string, known: KnownSecrets): ShownSecrets => ({
  redactor: () => known.redactor(),
  unseal: (record) => unsealRecord(record, installationKey(home)),
});

/** Manifests of code name files and a branch. */
export const manifestSeal = (home: string, known: KnownSecrets): ManifestSeal => ({
  seal: (manifest) => sealRecord(manifest, installationKey(home), known.redactor()),
  unseal: (manifest) => unsealRecord(manifest, installationKey(home)),
});
