// Makes what the npm package holds beside the build of every day. `npm pack` runs it by itself.

import { buildSdk, theVersion, writeThirdParty } from "./package-parts.ts";

const version = theVersion();
await buildSdk();
writeThirdParty();
console.error(`svc ${version}: dist/sdk, dist/types and dist/THIRD-PARTY.txt are made`);
