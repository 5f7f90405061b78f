// The entry point. It only turns on the compile cache and then loads the program, so that the program itself is cached.
// The cache is in the checkout, or, for an installed package (whose removal would leave it behind), in its owner's own
// cache folder: only its owner writes there. With a guessable name in a shared temporary folder, another user of this
// computer could plant code.

import { existsSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { checkoutRoot } from "./root.ts";

try {
  const root = checkoutRoot();
  const isCheckout = existsSync(join(root, "package-lock.json"));
  const caches = isCheckout ? join(root, "node_modules", ".cache") : join(homedir(), ".cache");
  enableCompileCache(join(caches, "svc"));
} catch {
  // Only slower.
}
const { runCli } = await import("./program.ts");
await runCli(process.argv.slice(2));
