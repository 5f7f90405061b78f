// Builds the dashboard into dashboard/dist, which `svc serve` hands out under a strict Content-Security-Policy: nothing is
// inlined, and nothing comes from another host.

import { defineConfig, type Plugin } from "vite";
import { z } from "zod";
import { NotifyTargetBody } from "../src/schemas/notify.ts";
import { SubmitBody } from "../src/schemas/spec.ts";

/** Made here from the schemas, so that the browser need not carry zod: what the forms are drawn from. */
const MADE: Record<string, () => unknown> = {
  "virtual:submit-schema": () => z.toJSONSchema(SubmitBody, { io: "input", unrepresentable: "any" }),
  "virtual:notify-schema": () => z.toJSONSchema(NotifyTargetBody, { io: "input", unrepresentable: "any" }),
};

const fromSchemas: Plugin = {
  name: "from-schemas",
  resolveId: (id) => (id in MADE ? `\0${id}` : undefined),
  load(id) {
    const make = id.startsWith("\0") ? MADE[id.slice(1)] : undefined;
    return make ? `export default ${JSON.stringify(make())}` : undefined;
  },
};

export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  plugins: [fromSchemas],
  oxc: { jsx: { runtime: "automatic" } },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
    // On a slow computer it would print advice about plugins into the set-up of whoever only wants to start.
    rolldownOptions: { checks: { pluginTimings: false } },
  },
});
