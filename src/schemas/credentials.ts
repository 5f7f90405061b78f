// Credentials as the API shows and takes them. Their fields are those of credential-blocks.ts.

import { z } from "zod";
import { ProviderName } from "./spec.ts";

/** `registry`: set by `configure()`. */
export const CredentialSource = z.enum(["env", "registry", "store"]).meta({ id: "CredentialSource" });
export type CredentialSource = z.infer<typeof CredentialSource>;

export const ShownField = z
  .object({
    value: z
      .string()
      .meta({ description: "At most the last 4 characters of a secret are shown, none of a short one." }),
    source: CredentialSource,
    read_only: z.boolean().meta({ description: "True if the value comes from the environment or `configure()`." }),
  })
  .meta({ id: "CredentialField" });
export type ShownField = z.infer<typeof ShownField>;

export const ShownCredential = z.record(z.string(), ShownField).meta({
  id: "Credential",
  description: "The fields that are set; unset fields are omitted.",
});
export type ShownCredential = z.infer<typeof ShownCredential>;

export const Credentials = z
  .object({
    providers: z.record(ProviderName, ShownCredential),
    tracker: ShownCredential,
    hub: ShownCredential,
    objstore_a: ShownCredential,
    objstore_b: ShownCredential,
  })
  .meta({ id: "Credentials" });
export type Credentials = z.infer<typeof Credentials>;

export const CredentialCheck = z
  .object({
    account: z.string().nullable().meta({ description: "The account, as reported by the provider." }),
    may: z.array(z.string()).meta({ description: "Its known permissions, as text." }),
    balance_usd: z.number().nullable().meta({ description: "The remaining balance, if the provider reports one." }),
    warnings: z.array(z.string()).meta({ description: "Problems, and checks that could not be made." }),
  })
  .meta({ id: "CredentialCheck", description: "The provider accepts the credential." });
export type CredentialCheck = z.infer<typeof CredentialCheck>;

export const SavedCredential = z
  .object({ name: z.string(), credential: ShownCredential, check: CredentialCheck.nullable() })
  .meta({ id: "SavedCredential" });
export type SavedCredential = z.infer<typeof SavedCredential>;

/** Text or null for each field; null removes the stored value. A key file may also be sent as a JSON object. */
export const CredentialBody = z
  .record(z.string().max(64), z.union([z.string(), z.number(), z.record(z.string(), z.unknown()), z.null()]))
  .meta({
    id: "CredentialBody",
    description: "Fields to set; null removes a field, omitted fields stay unchanged.",
  });
export type CredentialBody = z.infer<typeof CredentialBody>;
