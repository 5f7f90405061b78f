// What can go wrong with secrets and the store that holds them.

import { entry } from "./entry.ts";

export const SECRETS = {
  secret_not_found: entry<{ reference: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `The secret ${d.reference} cannot be had: ${d.why}.`,
    hint: "env:// is read from the environment that the control plane was started in, store:// from credentials.json in the home.",
  }),
  credential_read_only: entry<{ name: string; field: string; from: string }>({
    status: 409,
    exit: 4,
    retry: "never",
    message: (d) => `${d.name}.${d.field} is given by ${d.from}, which comes first: it cannot be changed here.`,
    hint: "Change it there and start the control plane again, or take it away there to use the store. Nothing was changed.",
  }),
  credential_in_use: entry<{ name: string; machines: number }>({
    status: 409,
    exit: 4,
    retry: "never",
    message: (d) =>
      `${d.machines} machine${d.machines === 1 ? "" : "s"} of ${d.name} may still cost money; without this credential ${d.machines === 1 ? "it" : "they"} could not be ended.`,
    hint: "End the runs first: `svc kill`; `svc jobs` says what is left. Nothing was changed.",
  }),
  credentials_unusable: entry<{ why: string }>({
    status: 500,
    exit: 4,
    retry: "never",
    message: (d) => `The credential store cannot be used: ${d.why}.`,
    hint: "Mend the file or move it away; it is not written over. What the environment gives is used meanwhile.",
  }),
} as const;
