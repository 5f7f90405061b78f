// Makes the contents of the npm package in addition to the everyday build. `npm pack` runs this script before it packs,
// and with `--after` when it has packed: npm always takes the README.md of this folder, so the package's own
// (sdk/README.md) replaces it meanwhile.

import { copyFileSync, existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildSite } from "./lib/build-site.ts";
import { buildSdk, PROGRAM_MAPS, ROOT, theVersion, thirdPartyNotices } from "./package-parts.ts";

const [readme, kept] = [join(ROOT, "README.md"), join(ROOT, ".cache", "README.checkout.md")];
// A kept copy that still exists comes from an interrupted packing.
if (existsSync(kept)) renameSync(kept, readme);
if (process.argv.includes("--after")) process.exit();

const version = theVersion();
await buildSdk();
buildSite();
writeFileSync(join(ROOT, "dist", "THIRD-PARTY.txt"), thirdPartyNotices([...PROGRAM_MAPS, "sdk/*.map"]));
console.error(`svc ${version}: dist/sdk, dist/types, dist/site and dist/THIRD-PARTY.txt are made`);
mkdirSync(join(ROOT, ".cache"), { recursive: true });
copyFileSync(readme, kept);
copyFileSync(join(ROOT, "sdk", "README.md"), readme);
