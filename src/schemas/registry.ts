// The registry: the credentials that exist and where their secrets are stored. The shape that `configure()` sends.

import { z } from "zod";
import { line } from "./line.ts";
import { SecretRef } from "./secret-ref.ts";
import { NotifyTarget, targetProblem, TargetName } from "./notify.ts";
import { RuleLines } from "./rule-lines.ts";
import { ProviderName } from "./spec.ts";

export const RegistryCredential = z
  .strictObject({
    cred_id: line(128),
    provider: ProviderName,
    secret_ref: SecretRef.nullish(),
    ssh_key_ref: line(4_096).nullish(),
    extra: z.record(z.string().max(64), z.union([line(4_096), z.number(), z.boolean(), z.null()])).nullish(),
  })
  .meta({ id: "RegistryCredential" });
export type RegistryCredential = z.infer<typeof RegistryCredential>;

export const Registry = z
  .strictObject({
    credentials: z.array(RegistryCredential).max(100).nullish(),
    tracking: z
      .strictObject({ tracker: z.strictObject({ secret_ref: SecretRef, project: line(256).nullish() }).nullish() })
      .nullish(),
    integrations: z
      .strictObject({
        hub: z
          .strictObject({
            token_ref: SecretRef.nullish(),
            cache_dir: line(4_096).nullish(),
            enabled: z.boolean().nullish(),
          })
          .nullish(),
      })
      .nullish(),
    notifications: z
      .strictObject({
        targets: z
          .record(TargetName, NotifyTarget)
          .superRefine((targets, context) => {
            for (const [name, target] of Object.entries(targets)) {
              const problem = targetProblem(target, "secret_ref" in target && target.secret_ref !== undefined);
              if (problem !== null)
                context.addIssue({ code: "custom", path: [name, problem.field], message: problem.message });
            }
          })
          .nullish()
          .meta({ description: "Where messages go, by a name of your choice. They are read-only in the API." }),
        rules: RuleLines.nullish().meta({
          description: "Rules for all runs, in addition to those of the home. They are read-only in the API.",
        }),
      })
      .nullish(),
  })
  .meta({ id: "Registry" });
export type Registry = z.infer<typeof Registry>;

export const RegistryBody = z
  .strictObject({
    registry: Registry,
    use: z.array(line(128)).max(100).default([]),
    values: z.record(z.string().max(256), z.string().max(65_536).nullable()).default({}).meta({
      description:
        "The values of `env://` references in the caller's environment, keyed by `credentials.<cred_id>`, `tracking.tracker`, `integrations.hub` and `notifications.<name>`; null if unset there. References without an entry are read from the control plane's environment.",
    }),
  })
  .meta({ id: "RegistryBody" });
export type RegistryBody = z.infer<typeof RegistryBody>;

export const RegistryInUse = z
  .object({
    use: z.array(z.string()).meta({ description: "The cred_ids in use." }),
    kept: z.array(z.string()).meta({
      description: "The cred_ids of an earlier registry, kept while a machine rented with them may cost money.",
    }),
    warnings: z.array(z.string()),
  })
  .meta({ id: "RegistryInUse" });
export type RegistryInUse = z.infer<typeof RegistryInUse>;
