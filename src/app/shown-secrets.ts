// Masks secrets in output and records, for the control plane and for commands that read the store themselves.

import type { ManifestSeal } from "../files/code/code-snapshot.ts";
import { installationKey } from "../secrets/installation-key.ts";
import { secretsIn } from "../notify/target-secrets.ts";
import type { NotifyTarget } from "../schemas/notify.ts";
import { KnownSecrets } from "../secrets/known.ts";
import { resolveOwnersSecret } from "../secrets/resolve.ts";
import { sealRecord, unsealRecord } from "../secrets/sealed-record.ts";
import { readTargetSettings } from "../store/notify-reads.ts";
import type { ShownSecrets } from "../store/reads.ts";
import type { All } from "../store/tables.ts";

/**
 * For a command: the secrets of the current credentials, and those of targets of notifications. Secrets of runs were masked when their
 * records were written.
 */
export function secretsOfHome(home: string, env: NodeJS.ProcessEnv): ShownSecrets {
  const known = new KnownSecrets({ home, env });
  const learn = (all: All): void => {
    for (const settings of readTargetSettings(all)) known.remember(secretsOfTarget(settings, { home, env }));
  };
  return { ...shownSecrets(home, known), learn };
}

/** Nothing for settings of a later version. Without its secret, what the target itself holds. */
function secretsOfTarget(settings: string, { home, env }: { home: string; env: NodeJS.ProcessEnv }): string[] {
  try {
    const target = JSON.parse(settings) as NotifyTarget;
    const reference = "secret_ref" in target ? target.secret_ref : undefined;
    return secretsIn(target, reference === undefined ? null : foundSecret(reference, home, env));
  } catch {
    return [];
  }
}

function foundSecret(reference: string, home: string, env: NodeJS.ProcessEnv): string | null {
  try {
    return resolveOwnersSecret(reference, home, env);
  } catch {
    return null;
  }
}

export const shownSecrets = (home: string, known: KnownSecrets): ShownSecrets => ({
  redactor: () => known.redactor(),
  unseal: (record) => unsealRecord(record, installationKey(home)),
});

/** Manifests of code name files and a branch. */
export const manifestSeal = (home: string, known: KnownSecrets): ManifestSeal => ({
  seal: (manifest) => sealRecord(manifest, installationKey(home), known.redactor()),
  unseal: (manifest) => unsealRecord(manifest, installationKey(home)),
});
