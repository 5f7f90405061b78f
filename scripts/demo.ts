// The demo of a checkout: `npm run demo` runs `svc demo` (src/cli/demo.ts).

import { join } from "node:path";
import { runDemo } from "../src/cli/demo.ts";

process.exit(await runDemo({ argv: [join(import.meta.dirname, "..", "bin", "svc")], words: "bin/svc" }));
