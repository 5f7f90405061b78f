// The one list of providers. Loads no zod, so that a command and a page can read it without loading the schemas.

export const PROVIDER_NAMES = ["local", "podhost", "market", "cloudvm", "notebook"] as const;

/** Providers whose machines are not this computer: they need a credential. */
export type RemoteName = Exclude<(typeof PROVIDER_NAMES)[number], "local">;
export const REMOTE_NAMES: readonly RemoteName[] = PROVIDER_NAMES.filter((name) => name !== "local");

/** Providers that rent only machines with a GPU. */
export const GPU_ONLY_NAMES = ["podhost", "market"] as const satisfies RemoteName[];
export type GpuOnlyName = (typeof GPU_ONLY_NAMES)[number];
