// Makes what the npm package holds beside the build of every day. `npm pack` runs it by itself.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildSdk, PROGRAM_MAPS, ROOT, theVersion, thirdPartyNotices } from "./package-parts.ts";

const version = theVersion();
await buildSdk();
writeFileSync(join(ROOT, "dist", "THIRD-PARTY.txt"), thirdPartyNotices([...PROGRAM_MAPS, "sdk/*.map"]));
console.error(`svc ${version}: dist/sdk, dist/types and dist/THIRD-PARTY.txt are made`);
