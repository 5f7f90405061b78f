// The entry point. It only turns on the compile cache and loads the program after it, so that the program itself is cached.
// The cache lies in the checkout, or in its owner's own cache folder where a package was installed (which would not remove
// it): only its owner writes there. A guessable name in a shared temporary folder would let another user of this computer
// plant code.

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
