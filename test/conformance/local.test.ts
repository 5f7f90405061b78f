import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LocalProvider } from "../../src/providers/local/provider.ts";
import { python, runnerPath } from "../runner/harness.ts";
import { conformance } from "./provider.ts";
import { spec } from "./world.ts";

conformance("local", () => {
  const home = mkdtempSync(join(tmpdir(), "svc-conformance-"));
  return Promise.resolve({
    provider: () =>
      new LocalProvider({ home, runnerPath, python: () => Promise.resolve(python), prefix: "svc-c0nf0rm1-" }),
    spec: spec({ provider: "local" }),
    simulated: null,
    spoilKey: null,
    mendKey: () => undefined,
    close: () => Promise.resolve(rmSync(home, { recursive: true, force: true })),
  });
});
