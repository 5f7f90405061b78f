// The refusal of `spot` for providers without spot machines. The `check` of each such provider calls it.

import { SvcError } from "../errors/index.ts";
import type { ProviderName, RunSpec } from "../schemas/spec.ts";

/** Throws `spot_unsupported`, naming the field, unless the run also accepts a machine that stays. */
export function refuseSpot(provider: ProviderName, { spot }: Pick<RunSpec, "spot">): void {
  if (spot === undefined || spot === "never") return;
  const message = `must be never, or left out, on ${provider}`;
  throw new SvcError("spot_unsupported", { provider, spot }, { errors: [{ field: "spec.spot", message }] });
}
