// The entry point. It only turns on the compile cache and loads the program after it, so that the program itself is cached.
// The cache lies in the checkout, which only its owner writes: a guessable name in a shared temporary folder would let
// another user of this computer plant code.

import { enableCompileCache } from "node:module";
import { join } from "node:path";
import { checkoutRoot } from "./root.ts";

try {
  enableCompileCache(join(checkoutRoot(), "node_modules", ".cache", "svc"));
} catch {
  // Only slower.
}
const { runCli } = await import("./program.ts");
await runCli(process.argv.slice(2));
