// The schemes of secret references. `src/secrets/resolve.ts` resolves them; `python/svc/_config.py` and `sdk/configure.ts` refuse
// others before they call.

import { z } from "zod";

/** Names a secret without holding it; `literal://` holds it, and causes a warning. */
export const SecretRef = z
  .string()
  .max(65_536, "must be at most 65536 characters")
  .regex(/^(env|file|store|literal):\/\/[^]/, "must begin with env://, file://, store:// or literal://")
  .meta({ id: "SecretRef", title: "Secret reference" });
