import { z } from "zod";

/** Names a secret without holding it; `literal://` holds it, and causes a warning. */
export const SecretRef = z
  .string()
  .max(65_536, "must be at most 65536 characters")
  .regex(/^(env|file|store|literal):\/\/[^]/, "must begin with env://, file://, store:// or literal://")
  .meta({ id: "SecretRef", title: "Secret reference" });
