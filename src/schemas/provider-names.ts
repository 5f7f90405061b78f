// The one list of providers. Free of zod, so that a command and a page may read it without loading the schemas.

export const PROVIDER_NAMES = ["local", "podhost", "market", "cloudvm", "notebook"] as const;

/** Where machines are not this computer: what needs a credential. */
export type RemoteName = Exclude<(typeof PROVIDER_NAMES)[number], "local">;
export const REMOTE_NAMES: readonly RemoteName[] = PROVIDER_NAMES.filter((name) => name !== "local");

/** What rents no machine without a GPU. */
export const GPU_ONLY_NAMES = ["podhost", "market"] as const satisfies RemoteName[];
export type GpuOnlyName = (typeof GPU_ONLY_NAMES)[number];
