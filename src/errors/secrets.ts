// Errors about secrets and the store that holds them.

import { entry } from "./entry.ts";
import { RELEASED } from "./runs.ts";

export const SECRETS = {
  secret_not_found: entry<{ reference: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `Cannot resolve the secret ${d.reference}: ${d.why}.`,
    hint: `Set it there: env:// is read from the environment of the control plane, store:// from credentials.json in the home. A run without it does not start. ${RELEASED}`,
  }),
  credential_read_only: entry<{ name: string; field: string; from: string }>({
    status: 409,
    exit: 4,
    retry: "never",
    message: (d) => `${d.name}.${d.field} is set by ${d.from}, which takes precedence: it cannot be changed here.`,
    hint: "Change it there and restart the control plane, or remove it there to use the store. Nothing was changed.",
  }),
  credential_in_use: entry<{ name: string; machines: number }>({
    status: 409,
    exit: 4,
    retry: "never",
    message: (d) =>
      `${d.machines} machine${d.machines === 1 ? "" : "s"} of ${d.name} may still cost money; without this credential svc could not terminate ${d.machines === 1 ? "it" : "them"}.`,
    hint: "End the runs first with `svc kill`; `svc jobs` lists the runs that have not ended. Nothing was changed.",
  }),
  credentials_unusable: entry<{ why: string }>({
    status: 500,
    exit: 4,
    retry: "never",
    message: (d) => `The credential store cannot be used: ${d.why}.`,
    hint: "Repair the file or move it away; svc does not overwrite it. Until then svc uses only the credentials from the environment.",
  }),
} as const;
