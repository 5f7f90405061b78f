// Builds the dashboard into dashboard/dist, which `svc serve` hands out under a strict Content-Security-Policy: nothing is
// inlined, and nothing comes from another host.

import { defineConfig, type Plugin } from "vite";
import { z } from "zod";
import { SubmitBody } from "../src/schemas/spec.ts";

const SCHEMA = "virtual:submit-schema";

/** The form is drawn from the run spec's JSON schema, made here so that the browser need not carry zod. */
const submitSchema: Plugin = {
  name: "submit-schema",
  resolveId: (id) => (id === SCHEMA ? `\0${SCHEMA}` : undefined),
  load: (id) =>
    id === `\0${SCHEMA}`
      ? `export default ${JSON.stringify(z.toJSONSchema(SubmitBody, { io: "input", unrepresentable: "any" }))}`
      : undefined,
};

export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  plugins: [submitSchema],
  oxc: { jsx: { runtime: "automatic" } },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
});
