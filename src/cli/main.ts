// The entry point. It only turns on the compile cache and then loads the program, so that the program itself is cached.
// The cache is in the checkout, or, for an installed package (whose removal would leave it behind), in its owner's own
// cache folder: only its owner writes there. With a guessable name in a shared temporary folder, another user of this
// computer could plant code.

import { existsSync } from "node:fs";
import { access } from "node:fs/promises";
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
// Each log of a run has a sync of its own, and libuv's four threads are few for a thousand runs. libuv reads the number when it starts its threads,
// with the first asynchronous call; after that the variable goes, so that no script inherits it.
if (process.argv[2] === "serve" && process.env["UV_THREADPOOL_SIZE"] === undefined) {
  process.env["UV_THREADPOOL_SIZE"] = "16";
  await access("/").catch(() => undefined);
  delete process.env["UV_THREADPOOL_SIZE"];
}
const { runCli } = await import("./program.ts");
await runCli(process.argv.slice(2));
