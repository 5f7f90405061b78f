// The manifests in the home, for the actions of `svc data`; loaded at first use, because reading and hashing is large.

export const store = () => import("../../../files/data/store.ts");
